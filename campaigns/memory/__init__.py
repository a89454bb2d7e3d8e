"""Hostile Flower rounds for a rule that remembers its clients."""
