"""Small files that claim to be large, or to take long."""
