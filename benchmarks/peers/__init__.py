"""Other libraries for the same rules, in an environment of their own: ``make bench-peers`` sets it up."""
