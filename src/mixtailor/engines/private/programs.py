"""What the parties compute on shares, as functions for the engine's compiler, and which rules that serves."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor.engines.private.encoding import LONGEST, PROJECTED
from mixtailor.mixing import MixTailor
from mixtailor.rules import Comed, Krum, Mean, MultiKrum, TrimmedMean
from mixtailor.rules.base import Rule

__all__ = ["check_private", "members", "multi_krum", "out_of_range", "products", "sorted_sum", "way_of"]

Program = Callable[..., Any]


def members(rule: Rule) -> tuple[Rule, ...]:
    """The rules that may be drawn."""
    return rule.rules if isinstance(rule, MixTailor) else (rule,)


def way_of(rule: Rule) -> str:
    """How a rule is computed: "sum", "krum", "sorted", or "weights", which needs opened products."""
    if isinstance(rule, Mean):
        return "sum"
    if isinstance(rule, MultiKrum) and rule.p == 2 and rule.power == 2 and rule.m != 1:
        return "krum"
    return "sorted" if isinstance(rule, Comed | TrimmedMean) else "weights"


def check_private(rule: Rule, *, opened: bool = False) -> None:
    """Refuse a rule that the parties cannot compute, or whose result would show a single client's update.

    Parameters
    ----------
    rule : Rule
        The rule, or a MixTailor of such.
    opened : bool
        Whether the inner products between updates may be opened.

    Examples
    --------
    >>> from mixtailor import CAF, MultiKrum
    >>> check_private(MultiKrum(f=2))
    >>> check_private(CAF(f=2), opened=True)
    >>> check_private(CAF(f=2))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: CAF(f=2) decides from inner products, which stay hidden by default. Take MultiKrum, Comed, ...
    """
    for member in members(rule):
        if way_of(member) != "weights":
            continue
        if isinstance(member, Krum) or (isinstance(member, MultiKrum) and member.m == 1):
            refuse(f"{member!r} returns one client's update as it is, which is not private. Take MultiKrum.")
        if not opened:
            refuse(
                f"{member!r} decides from inner products, which stay hidden by default. Take MultiKrum, Comed, "
                "TrimmedMean or a MixTailor of them, or opened=True: then the parties see every norm of an update and "
                "every angle between two."
            )
        member.weights(products=np.eye(max(member.min_rows(), 3)))  # refuses with a sentence of its own


def products(*rows: Any) -> Any:
    """Inner products, by products of a matrix and a vector: one of two matrices takes forty times as long."""
    import jax.numpy as jnp

    matrix = jnp.stack(rows)
    return jnp.stack([matrix @ row for row in rows])


def out_of_range(projections: Any, inner: Any) -> Any:
    """For each client, how many of its projections and its norm are outside of their bounds. Honest ones: none."""
    import jax.numpy as jnp

    within = (projections <= PROJECTED) & (projections >= -PROJECTED)
    squares = jnp.diagonal(inner)
    short = (squares <= LONGEST**2) & (squares >= 0)
    return (~within).sum(axis=1, dtype=jnp.int64) + (~short).astype(jnp.int64)


def multi_krum(n: int, f: int, m: int) -> Program:
    """The sum of the m rows that Multi-Krum selects; which rows these are stays hidden."""

    def selected(inner: Any, *rows: Any) -> Any:
        import jax.numpy as jnp

        squares = jnp.diagonal(inner)
        away = squares[:, None] + squares[None, :] - 2 * inner
        # Its own distance, zero, is each row's least: n - f - 1 nearest with itself. Ties go to the lower index.
        near = (_ranks(jnp, away) < n - f - 1).astype(jnp.int64)
        scores = (near * away).sum(axis=1)
        chosen = (_ranks(jnp, scores[None, :])[0] < m).astype(jnp.int64)
        return chosen @ jnp.stack(rows)

    return selected


def _ranks(jnp: Any, values: Any) -> Any:
    """How many entries of a row come before each, by comparing all pairs: no secret decides where anything is read."""
    n = values.shape[-1]
    earlier = np.tri(n, k=-1, dtype=bool)  # [i, j]: j stands before i
    less = values[:, None, :] < values[:, :, None]
    equal = values[:, None, :] == values[:, :, None]
    return (less | (equal & earlier[None])).astype(jnp.int64).sum(axis=2)


def sorted_sum(n: int, first: int, last: int) -> Program:
    """The sum, coordinate by coordinate, of the values with ranks `first` to `last` - 1, by a sorting network."""

    def summed(*rows: Any) -> Any:
        import jax.numpy as jnp

        values = list(rows)
        for low, high in _network(n):
            # All coordinates of all pairs of a layer at once: what costs is the number of rounds.
            lows, highs = jnp.stack([values[i] for i in low]), jnp.stack([values[i] for i in high])
            swap = (highs < lows).astype(jnp.int64) * (highs - lows)
            lows, highs = lows + swap, highs - swap
            for place, (i, j) in enumerate(zip(low, high, strict=True)):
                values[i], values[j] = lows[place], highs[place]
        total = values[first]
        for place in range(first + 1, last):
            total = total + values[place]
        return total

    return summed


def _network(n: int) -> list[tuple[list[int], list[int]]]:
    """Layers of Batcher's merge exchange (Knuth, volume 3, algorithm 5.2.2M): pairs of one layer do not overlap."""
    layers: list[tuple[list[int], list[int]]] = []
    top = 1 << max(0, (n - 1).bit_length() - 1)
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            pairs = [(i, i + d) for i in range(n - d) if i & p == r]
            if pairs:
                layers.append(([i for i, _ in pairs], [j for _, j in pairs]))
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return layers
