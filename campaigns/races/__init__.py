"""Files that their worker changes while they are read."""
