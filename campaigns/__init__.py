"""What is thrown at mixtailor to see whether it keeps its promises: long runs that count what they tried.

``python -m campaigns rows`` sends adversarial rows to every rule, ``bytes`` damaged files to every reader, ``kills``
ends processes at random moments, ``load`` aggregates for an hour; ``races``, ``bombs``, ``special`` and ``readme`` send
files that change, that claim more than they are, that are none, and two of every kind to the command line. Each can be
stopped and resumed, and each failure names a seed that repeats it alone.
"""
