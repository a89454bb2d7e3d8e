"""What mixtailor claims about its speed, measured: one file a claim, one run for all.

``python -m benchmarks`` measures everything, prints the table and writes the JSON; ``--quick`` takes a minute.
Workers import this package in an environment without mixtailor, so nothing is imported here.
"""
