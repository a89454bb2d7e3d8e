"""Mixing: the rule drawn anew each round, the pools it is drawn from, and where the randomness comes from."""
