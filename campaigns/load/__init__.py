"""Aggregation without end: memory stays flat, no call gets slower, threads and forks get right answers."""
