"""Topologies: who talks to whom, as a symmetric matrix of zeros and ones."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor._checks import nearest, refuse
from mixtailor._files import read_bounded

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["TOPOLOGIES", "topology"]

Graph = np.ndarray[Any, np.dtype[np.float64]]

_MOST_BYTES = 16 << 20
_TRIES = 1000


def complete(n: int, random: np.random.Generator) -> Graph:
    """Everybody talks to everybody."""
    return np.ones((n, n)) - np.eye(n)


def ring(n: int, random: np.random.Generator) -> Graph:
    """Each to the next on both sides."""
    return _of(n, [(i, (i + 1) % n) for i in range(n)])


def torus(n: int, random: np.random.Generator) -> Graph:
    """A grid whose ends meet, as square as n allows."""
    rows = next(side for side in range(math.isqrt(n), 0, -1) if n % side == 0)
    columns = n // rows
    place = np.arange(n).reshape(rows, columns)
    return _of(n, [*zip(place.ravel(), np.roll(place, 1, 0).ravel(), strict=True),
                   *zip(place.ravel(), np.roll(place, 1, 1).ravel(), strict=True)])  # fmt: skip


def random_regular(n: int, random: np.random.Generator, *, degree: int = 6) -> Graph:
    """Everybody has as many neighbours, drawn at random; connected."""
    if not 2 <= degree < n or n * degree % 2:
        refuse(f"random_regular needs 2 <= degree < n and n x degree even, and got n = {n}, degree = {degree}.")
    for _ in range(_TRIES):
        edges: set[tuple[int, int]] = set()
        left = [worker for worker in range(n) for _ in range(degree)]
        while left:  # pairs of ends that are left, until a pair cannot be made
            random.shuffle(left)
            pairs = [(min(a, b), max(a, b)) for a, b in zip(left[::2], left[1::2], strict=True)]
            good = {(a, b) for a, b in pairs if a != b and (a, b) not in edges}
            if not good:
                break
            rest = [end for pair in pairs if pair not in good for end in pair]
            doubled = [end for pair in good for end in pair * (pairs.count(pair) - 1)]
            edges |= good
            left = [*rest, *doubled]
        graph = _of(n, list(edges))
        if not left and _connected(graph):
            return graph
    return refuse(f"No connected graph of {n} workers with {degree} neighbours each was drawn. Raise degree.")


def erdos_renyi(n: int, random: np.random.Generator, *, share: float = 0.5) -> Graph:
    """Each pair talks with a probability; connected."""
    if not 0.0 < share <= 1.0:
        refuse(f"erdos_renyi needs 0 < share <= 1 and got {share}.")
    for _ in range(_TRIES):
        upper = np.triu(random.random((n, n)) < share, 1).astype(np.float64)
        if _connected(upper + upper.T):
            return np.asarray(upper + upper.T)
    return refuse(f"No connected graph of {n} workers was drawn. Raise share.")


def two_clusters(n: int, random: np.random.Generator, *, bridges: int = 1) -> Graph:
    """Two complete graphs, and a few edges between them: a bottleneck."""
    half = n // 2
    if not 1 <= bridges <= half:
        refuse(f"two_clusters needs 1 <= bridges <= {half} and got {bridges}.")
    graph = np.zeros((n, n))
    graph[:half, :half] = graph[half:, half:] = 1.0
    for k in range(bridges):
        graph[k, half + k] = graph[half + k, k] = 1.0
    return np.asarray(graph - np.eye(n))


TOPOLOGIES: dict[str, Callable[..., Graph]] = {
    make.__name__: make for make in (complete, ring, torus, random_regular, erdos_renyi, two_clusters)
}


def topology(name: str | Path, n: int, *, seed: int = 0, **options: Any) -> Graph:
    """A topology by name, or from a file of edges: two numbers of workers on each line, from 0.

    Examples
    --------
    >>> topology("ring", 4)
    array([[0., 1., 0., 1.],
           [1., 0., 1., 0.],
           [0., 1., 0., 1.],
           [1., 0., 1., 0.]])
    >>> topology("random_regular", 8, degree=4).sum(axis=1)
    array([4., 4., 4., 4., 4., 4., 4., 4.])
    """
    if str(name) in TOPOLOGIES:
        if n < 3:
            refuse(f"A topology needs at least 3 workers and got {n}.")
        return TOPOLOGIES[str(name)](n, np.random.default_rng([seed, 7]), **options)
    if not any(mark in str(name) for mark in "./\\"):
        refuse(f"There is no topology {str(name)!r}. {nearest(str(name), list(TOPOLOGIES))} A file: edges.txt")
    edges = []
    for number, line in enumerate(read_bounded(name, _MOST_BYTES).decode("utf-8", "replace").splitlines(), 1):
        words = line.split("#")[0].replace(",", " ").split()
        if words:
            ends = [int(word) for word in words if word.isdecimal()]
            if len(words) != 2 or len(ends) != 2 or max(ends) >= n or ends[0] == ends[1]:
                refuse(f"Line {number} of {name} needs two different workers from 0 to {n - 1} and has {line[:40]!r}.")
            edges.append((ends[0], ends[1]))
    graph = _of(n, edges)
    if not _connected(graph):
        refuse(f"The graph of {name} is not connected: some of the {n} workers never receive anything from others.")
    return graph


def _of(n: int, edges: list[tuple[Any, Any]]) -> Graph:
    graph = np.zeros((n, n))
    for a, b in edges:
        if a != b:
            graph[a, b] = graph[b, a] = 1.0
    return graph


def _connected(graph: Graph) -> bool:
    reached, todo = {0}, [0]
    while todo:
        for other in np.nonzero(graph[todo.pop()])[0].tolist():
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return len(reached) == len(graph)
