"""Hostile Flower rounds: replies of every bad kind, given to the strategy without a Flower process."""
