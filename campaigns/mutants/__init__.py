"""Mutation testing: small faults planted in rules, mixing and pre-aggregation, and whether a test notices each.

``python -m campaigns.mutants`` takes the tests of these packages, finds out which of them call which function, and then
plants one fault at a time in a forked child. A fault that no test notices is a defence that could be plain averaging.
"""
