"""Processes ended at random moments, and disks that fill up: nothing reported as done is lost, results are the same."""
