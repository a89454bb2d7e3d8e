"""Who holds which examples: ways to spread a data set over the workers.

Each function takes the labels, the number of workers and a numpy generator, and returns one sorted array of indices per
worker. Every example belongs to exactly one worker, and every worker has at least one. Called with its parameters
alone, each gives the partition with these: ``dirichlet(alpha=0.3)``. Any function with these three parameters is a
partition.
"""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, final, overload

import numpy as np

from mixtailor._checks import nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    Labels = npt.NDArray[np.integer] | Sequence[int]
    Parts = list[npt.NDArray[np.int64]]

__all__ = ["PARTITIONS", "Spreading", "by_label", "dirichlet", "iid", "shards", "similarity"]


@final
class Spreading:
    """A partition of this module, with its parameters.

    Examples
    --------
    >>> dirichlet(alpha=0.3)
    dirichlet(alpha=0.3)
    >>> [len(part) for part in iid(np.arange(6) % 2, 2, np.random.default_rng(0))]
    [3, 3]
    """

    def __init__(self, function: Callable[..., Parts], options: Mapping[str, Any] | None = None) -> None:
        functools.update_wrapper(self, function)
        self.function, self.options = function, dict(options or {})
        self.name = function.__name__

    @overload
    def __call__(self, **options: Any) -> Spreading: ...
    @overload
    def __call__(self, labels: Labels, workers: int, random: np.random.Generator, **options: Any) -> Parts: ...
    def __call__(self, *spread: Any, **options: Any) -> Spreading | Parts:
        """The indices of each worker; with parameters alone, the partition that has these."""
        first = ("labels", "workers", "random")
        known = [key for key in inspect.signature(self.function).parameters if key not in first]
        for key in options:
            if key not in (*known, *first):
                what = nearest(key, known) if known else "It has none."
                raise TypeError(f"{self.name} takes no parameter {key!r}. {what}")
        if known and len(spread) == 1 and not np.ndim(spread[0]):  # dirichlet(0.3)
            raise TypeError(f"{self.name} takes its parameters by name. Write {self.name}({known[0]}={spread[0]!r}).")
        if not spread and not set(first) & set(options):
            return Spreading(self.function, {**self.options, **options})
        return self.function(*spread, **{**self.options, **options})

    def __repr__(self) -> str:
        if not self.options:
            return self.name
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Spreading) and (self.name, self.options) == (other.name, other.options)

    def __hash__(self) -> int:
        return hash((self.name, tuple(self.options.items())))

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: the function's own name is that of this object.
        return _spreading, (self.name, self.options)


@Spreading
def iid(labels: Labels, workers: int, random: np.random.Generator) -> Parts:
    """Shuffle and deal evenly; sizes differ by at most one.

    Examples
    --------
    >>> parts = iid([0, 0, 1, 1, 2, 2, 2], 3, np.random.default_rng(0))
    >>> [len(part) for part in parts], np.concatenate(parts).sum()
    ([3, 2, 2], np.int64(21))
    """
    labels = _checked(labels, workers)
    return _sorted(np.array_split(random.permutation(len(labels)), workers))


@Spreading
def by_label(labels: Labels, workers: int, random: np.random.Generator, *, whole: int = 0) -> Parts:
    """One label per worker: worker i holds label ``i mod classes``, shared evenly where several hold the same.

    The non-iid setting of the MixTailor paper, with as many (honest) workers as digits. With fewer workers than labels,
    worker i holds the labels ``i, i + workers, ...``.

    Parameters
    ----------
    whole : int
        The first `whole` workers hold all examples in place of one label, as worker 0 does in the paper's published
        code; 0, as in its text, by default.

    Examples
    --------
    >>> by_label([2, 0, 1, 0, 2, 1], 3, np.random.default_rng(0))
    [array([1, 3]), array([2, 5]), array([0, 4])]

    Notes
    -----
    A label with fewer examples than holders would leave a worker with nothing, and is refused.
    """
    labels = _checked(labels, workers)
    _refuse_real(labels, "by_label")
    parts: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(workers)]
    classes = np.unique(labels)
    for position, label in enumerate(classes):
        holders = range(position, workers, len(classes)) if workers > len(classes) else [position % workers]
        held = random.permutation(np.flatnonzero(labels == label))
        if len(held) < len(holders):
            raise ValueError(
                f"by_label gives label {label} to {len(holders)} of {workers} workers, and it has {len(held)} "
                "examples. Use fewer workers."
            )
        for worker, share in zip(holders, np.array_split(held, len(holders)), strict=True):
            parts[worker].append(share)
    if not 0 <= whole <= workers:
        raise ValueError(f"by_label needs 0 <= whole <= workers and got whole = {whole} of {workers} workers.")
    everything = [np.arange(len(labels))]
    return _sorted([np.concatenate(everything if i < whole else shares) for i, shares in enumerate(parts)])


@Spreading
def dirichlet(labels: Labels, workers: int, random: np.random.Generator, *, alpha: float = 0.5) -> Parts:
    r"""Each label is spread over the workers in proportions drawn from a symmetric Dirichlet distribution.

    .. math:: q_k \sim \mathrm{Dir}(\alpha, \dots, \alpha) \quad \text{over the workers, for each label } k

    Small `alpha` gives each label to few workers, large `alpha` approaches equal shares.

    Parameters
    ----------
    labels, workers, random
        As everywhere in this module.
    alpha : float
        The concentration, above 0.

    Examples
    --------
    >>> parts = dirichlet(np.arange(100) % 5, 4, np.random.default_rng(0), alpha=0.3)
    >>> sorted(np.concatenate(parts)) == list(range(100))
    True

    Notes
    -----
    A worker left with nothing gets one example of the worker with most; other implementations draw again until nobody
    is.

    References
    ----------
    .. [1] Hsu, Qi, Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
       Classification", 2019.
    """
    labels = _checked(labels, workers)
    _refuse_real(labels, "dirichlet")
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ValueError(f"dirichlet needs a finite alpha above 0 and got {alpha}.")
    parts: list[list[npt.NDArray[np.int64]]] = [[] for _ in range(workers)]
    for label in np.unique(labels):
        held = random.permutation(np.flatnonzero(labels == label))
        shares = random.dirichlet(np.full(workers, float(alpha)))
        if not np.isfinite(shares).all() or not shares.sum() > 0:
            # The limit of small alpha, which floating point reaches first: one worker holds the label.
            shares = np.eye(workers)[random.integers(workers)]
        cuts = np.floor(np.cumsum(shares)[:-1] / shares.sum() * len(held) + 0.5).astype(np.int64)
        for worker, share in enumerate(np.split(held, cuts)):
            parts[worker].append(share)
    return _sorted(_nobody_without([np.concatenate(shares) for shares in parts]))


@Spreading
def shards(labels: Labels, workers: int, random: np.random.Generator, *, per_worker: int = 2) -> Parts:
    """Sort by label, cut into ``workers * per_worker`` equal shards, and deal `per_worker` to each at random.

    Parameters
    ----------
    labels, workers, random
        As everywhere in this module.
    per_worker : int
        Shards per worker: about how many labels each sees.

    Examples
    --------
    >>> parts = shards(np.arange(40) % 10, 5, np.random.default_rng(0), per_worker=2)
    >>> [len(set(part % 10)) for part in parts]
    [2, 2, 2, 2, 2]

    References
    ----------
    .. [1] McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017.
    """
    labels = _checked(labels, workers)
    if per_worker < 1 or workers * per_worker > len(labels):
        raise ValueError(
            f"shards needs 1 <= per_worker and workers * per_worker <= examples, and got per_worker={per_worker}, "
            f"{workers} workers and {len(labels)} examples."
        )
    cut = np.array_split(_by_label_order(labels, random), workers * per_worker)
    dealt = random.permutation(len(cut)).reshape(workers, per_worker)
    return _sorted([np.concatenate([cut[shard] for shard in own]) for own in dealt])


@Spreading
def similarity(labels: Labels, workers: int, random: np.random.Generator, *, gamma: float = 0.5) -> Parts:
    """A share `gamma` of the examples is dealt at random, the rest is sorted by label and cut in order.

    ``gamma = 1`` is iid, ``gamma = 0`` is sorted.

    Parameters
    ----------
    labels, workers, random
        As everywhere in this module.
    gamma : float
        0 to 1.

    Examples
    --------
    >>> [len(part) for part in similarity(np.arange(20) % 2, 2, np.random.default_rng(0), gamma=0.0)]
    [10, 10]

    References
    ----------
    .. [1] Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020.
    """
    labels = _checked(labels, workers)
    if not 0 <= gamma <= 1:
        raise ValueError(f"similarity needs 0 <= gamma <= 1 and got {gamma}.")
    shuffled = random.permutation(len(labels))
    alike = round(gamma * len(labels))
    rest = shuffled[alike:]
    ordered = rest[np.argsort(labels[rest], kind="stable")]
    first = np.array_split(shuffled[:alike], workers)
    # Reversed, so that the workers who got one more of the first kind get one less of the second.
    second = np.array_split(ordered, workers)
    sizes = [len(part) for part in reversed(second)]
    second = np.split(ordered, np.cumsum(sizes)[:-1])
    return _sorted(_nobody_without([np.concatenate(pair) for pair in zip(first, second, strict=True)]))


PARTITIONS: Mapping[str, Spreading] = {
    "iid": iid,
    "by_label": by_label,
    "dirichlet": dirichlet,
    "shards": shards,
    "similarity": similarity,
}


def _spreading(name: str, options: Mapping[str, Any]) -> Spreading:
    return Spreading(PARTITIONS[name].function, options)


def _checked(labels: Labels, workers: int) -> npt.NDArray[np.integer]:
    labels = np.asarray(labels)
    if labels.ndim != 1:
        raise ValueError(f"A partition needs one label per example and got labels of shape {labels.shape}.")
    if not 1 <= workers <= len(labels):
        raise ValueError(
            f"A partition needs 1 <= workers <= examples and got {workers} workers and {len(labels)} examples."
        )
    return labels


def _refuse_real(labels: npt.NDArray[np.integer], name: str) -> None:
    if labels.dtype.kind == "f":
        raise ValueError(
            f"{name} deals examples by class, and these labels are real numbers (regression). Use iid, or shards or "
            "similarity, which sort by label."
        )


def _by_label_order(labels: npt.NDArray[np.integer], random: np.random.Generator) -> npt.NDArray[np.int64]:
    shuffled = random.permutation(len(labels))
    return shuffled[np.argsort(labels[shuffled], kind="stable")]


def _nobody_without(parts: Parts) -> Parts:
    for worker, part in enumerate(parts):
        if not len(part):
            richest = max(range(len(parts)), key=lambda other: len(parts[other]))
            parts[worker], parts[richest] = parts[richest][:1], parts[richest][1:]
    return parts


def _sorted(parts: Parts) -> Parts:
    return [np.sort(part).astype(np.int64, copy=False) for part in parts]
