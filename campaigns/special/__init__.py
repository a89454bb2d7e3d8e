"""Pipes, devices, folders and links in place of every file that is read."""
