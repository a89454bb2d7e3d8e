"""The numerics and the speed of every rule: sequential loops over k rows and a run of coordinates.

A kernel gets the rows as ``addresses`` (where each row's run begins, an ``intp`` array), ``like`` (an empty array of
the rows' dtype, float32 or float64) and ``width`` (how many coordinates the run has). So one kernel serves a matrix, a
list of arrays, the leaves of a tree and a memory map. The caller keeps the memory alive. Kernels release the GIL and
start no threads: `threads.over` runs several of them on several runs of coordinates.
"""
