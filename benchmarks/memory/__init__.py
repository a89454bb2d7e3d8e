"""The recommended recipe against many attacks, in trainings that are made hundreds at once."""
