"""What is thrown at mixtailor to see whether it keeps its promises: long runs that count what they tried.

``python -m campaigns rows`` sends adversarial rows to every rule, ``bytes`` damaged files to every reader, ``kills``
ends processes at random moments, ``load`` aggregates for an hour. Each can be stopped and resumed, and each failure
names a seed that repeats it alone.
"""
