"""Threads over runs of coordinates.

The kernels are sequential and release the GIL, so plain threads suffice. numba's own threading layers abort when two
threads call them at once or after a fork; these neither abort nor wait for one another.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from mixtailor.kernels._numba import config

T = TypeVar("T")

__all__ = ["count", "over", "shared"]


class _Batch(Generic[T]):
    """Jobs that several threads share: whoever is free takes the next one."""

    def __init__(self, jobs: Sequence[Callable[[], T]]) -> None:
        self.jobs = jobs
        self.results: list[Any] = [None] * len(jobs)
        self.errors: list[BaseException | None] = [None] * len(jobs)
        self._turns = itertools.count()
        self._done = itertools.count(1)
        self.finished = threading.Event()

    def work(self) -> None:
        """Take jobs until none is left. `next` on a count is atomic, so no job is taken twice."""
        while (turn := next(self._turns)) < len(self.jobs):
            try:
                self.results[turn] = self.jobs[turn]()
            except BaseException as error:  # handed to the caller of `over`, whatever it is
                self.errors[turn] = error
            if next(self._done) == len(self.jobs):
                self.finished.set()


class _Inside(threading.local):
    """Whether this thread is running a job already, and among how many processes it shares the processors."""

    job = False
    processes = 1


_inside = _Inside()
_lock = threading.Lock()
_tickets: SimpleQueue[_Batch[Any]] = SimpleQueue()
_started = 0


def _serve(tickets: SimpleQueue[_Batch[Any]]) -> None:
    _inside.job = True
    while True:
        batch = tickets.get()
        batch.work()
        del batch  # an idle thread keeps nobody's arrays alive


def _start(helpers: int) -> None:
    global _started
    with _lock:
        while _started < helpers:
            threading.Thread(target=_serve, args=(_tickets,), name=f"mixtailor-{_started}", daemon=True).start()
            _started += 1


def _forget_threads() -> None:
    """After a fork: the child has the parent's queue but none of its threads."""
    global _lock, _tickets, _started
    _lock, _tickets, _started = threading.Lock(), SimpleQueue(), 0
    _inside.job = False


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_forget_threads)


def count() -> int:
    """How many threads work at once: ``NUMBA_NUM_THREADS``, else the cores this process may use; its share of them
    where it shares them."""
    return max(1, int(config.NUMBA_NUM_THREADS) // _inside.processes)


class shared:  # lower case, to be read as a word
    """While so many processes of this host work at the same thing, each takes its share of the threads.

    Examples
    --------
    >>> with shared(1_000_000):
    ...     count()
    1
    """

    def __init__(self, processes: int) -> None:
        self.processes = processes

    def __enter__(self) -> None:
        self.outer, _inside.processes = _inside.processes, self.processes

    def __exit__(self, *_: object) -> None:
        _inside.processes = self.outer


def over(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Run the jobs, the calling thread among the workers, and return their results in order.

    A job that calls `over` itself, a single job, and a single thread run where they are. When jobs fail, all are
    awaited and the first error, by the order of the jobs, is raised.

    Examples
    --------
    >>> over([lambda: 1, lambda: 2, lambda: 3])
    [1, 2, 3]
    """
    helpers = min(count(), len(jobs)) - 1
    if helpers < 1 or _inside.job:
        return [job() for job in jobs]
    if _started < helpers:
        _start(helpers)
    batch = _Batch(jobs)
    for _ in range(helpers):
        _tickets.put(batch)
    _inside.job = True
    try:
        batch.work()
    finally:
        _inside.job = False
    batch.finished.wait()
    for error in batch.errors:
        if error is not None:
            raise error
    return batch.results
