"""The slow oracle: every rule as its definition reads, on an (n, d) matrix, one row a worker.

Nothing here is clever and nothing is shared with the package. Sums, differences and powers are taken in
`numpy.longdouble` (64 bits of mantissa and exponents to 1e4932 on x86), distances are scaled by their largest
coordinate, subsets are enumerated, and ties go to the lowest row index, or to the lower value in a column.
Functions that end in ``_row``, ``_rows`` or ``_scores`` give what a rule decides before it becomes a vector.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[Any]
Vector = NDArray[np.float64]
Wide = NDArray[np.longdouble]


def wide(x: ArrayLike) -> Wide:
    """The same numbers as `numpy.longdouble`: exact for float16, float32 and float64."""
    return np.asarray(x).astype(np.longdouble)


def narrow(x: ArrayLike) -> Vector:
    """The nearest float64."""
    with np.errstate(over="ignore"):
        return np.asarray(x).astype(np.float64)


# Sums, norms and distances


@np.errstate(all="ignore")
def power_sums(x: ArrayLike, p: float) -> Wide:
    """sum_k |x_ik|^p for each row i, unscaled; the maximum where p is infinite. NaN stays NaN."""
    sizes = np.abs(wide(x))
    if math.isinf(p):
        return wide(sizes.max(axis=-1, initial=0))
    if p == int(p):  # a product of p factors: right to p roundings, where a general power would cost digits and time
        powers = sizes
        for _ in range(int(p) - 1):
            powers = powers * sizes
    else:
        powers = sizes ** np.longdouble(p)
    return wide(powers.sum(axis=-1))


@np.errstate(all="ignore")
def norms(x: ArrayLike, p: float = 2.0) -> Wide:
    """The l_p norm of each row, p from 1 to infinity, scaled by its largest entry: nothing over- or underflows."""
    sizes = np.abs(wide(x))
    largest = sizes.max(axis=-1, initial=0)
    if math.isinf(p):
        return wide(largest)
    scale = np.where((largest > 0) & np.isfinite(largest), largest, 1)
    return wide(scale * power_sums(sizes / scale[..., None], p) ** (1 / np.longdouble(p)))


@np.errstate(all="ignore")
def distances(x: ArrayLike, p: float = 2.0) -> Wide:
    """The n x n matrix of ||x_i - x_j||_p."""
    rows = wide(x)
    return np.stack([norms(rows - row, p) for row in rows])


@np.errstate(all="ignore")
def distances_to(x: ArrayLike, point: ArrayLike, p: float = 2.0) -> Wide:
    """||x_i - point||_p for each row i."""
    return norms(wide(x) - wide(point), p)


@np.errstate(all="ignore")
def gram(x: ArrayLike, about: ArrayLike | None = None) -> Wide:
    """<x_i - about, x_j - about> for each pair of rows; None is the origin."""
    rows = wide(x) if about is None else wide(x) - wide(about)
    return np.stack([(rows * row).sum(axis=-1) for row in rows])


def nearest(sizes: ArrayLike, count: int) -> list[int]:
    """The indices of the `count` smallest sizes, ties to the lowest index, in increasing order of index."""
    values = np.asarray(sizes)
    return sorted(sorted(range(len(values)), key=lambda i: (values[i], i))[:count])


def combine(x: ArrayLike, weights: ArrayLike) -> Vector:
    """sum_i weights_i x_i over the rows whose weight is not zero (0 times infinity takes no part)."""
    rows, factors = wide(x), wide(weights)
    used = np.flatnonzero(factors)
    return narrow((factors[used, None] * rows[used]).sum(axis=0))


# Rules column by column


def mean(x: ArrayLike, f: int = 0) -> Vector:
    """The mean of the rows; f is there for the signature."""
    return narrow(wide(x).mean(axis=0))


def comed(x: ArrayLike, f: int = 0) -> Vector:
    """The median of each column; with n even, the mean of the two middle values. Yin et al., ICML 2018."""
    columns = np.sort(wide(x), axis=0)
    n = len(columns)
    return narrow((columns[(n - 1) // 2] + columns[n // 2]) / 2)


def trimmed_mean(x: ArrayLike, f: int) -> Vector:
    """The mean of what is left of a column when its f smallest and f largest values leave. Yin et al., ICML 2018."""
    columns = np.sort(wide(x), axis=0)
    return narrow(columns[f : len(columns) - f].mean(axis=0))


def around(x: ArrayLike, keep: int, centre: ArrayLike) -> Vector:
    """The mean of the `keep` values of each column nearest to the centre, equally near ones by lower value first.

    The nearest values of a column are a run of its sorted values, so that "the lower value first" and "the lower run"
    say the same.
    """
    columns = []
    for column, middle in zip(wide(x).T, wide(centre), strict=True):
        chosen = sorted(column, key=lambda value: (abs(value - middle), value))[:keep]
        columns.append(np.sum(wide(chosen)) / keep)
    return narrow(columns)


def meamed(x: ArrayLike, f: int) -> Vector:
    """The mean of the n - f values nearest the median of each column. Xie, Koyejo, Gupta, arXiv 1802.10116, 2018."""
    columns = np.sort(wide(x), axis=0)
    n = len(columns)
    return around(x, n - f, (columns[(n - 1) // 2] + columns[n // 2]) / 2)


def phocas(x: ArrayLike, f: int) -> Vector:
    """The mean of the n - f values nearest the trimmed mean of each column. Xie et al., "Phocas", 2018."""
    columns = np.sort(wide(x), axis=0)
    return around(x, len(columns) - f, columns[f : len(columns) - f].mean(axis=0))


def sign_vote(x: ArrayLike, f: int = 0) -> Vector:
    """The sign of the sum of signs of each column; zeros abstain. Bernstein et al., "signSGD", ICLR 2019."""
    return narrow(np.sign(np.sign(wide(x)).sum(axis=0)))


# Rules by distance


def krum_scores(x: ArrayLike, neighbours: int, p: float = 2.0, power: float = 2) -> Wide:
    """For each row i, the sum of ||x_i - x_j||_p^power over the `neighbours` other rows j nearest to it."""
    between = distances(x, p)
    scores = []
    for i, row in enumerate(between):
        others = np.sort(np.delete(row, i))[:neighbours]
        scores.append(np.sum(others**power, dtype=np.longdouble))
    return wide(scores)


def krum_row(x: ArrayLike, f: int, p: float = 2.0, power: float = 2) -> int:
    """The row of least score over n - f - 2 neighbours, but at least one (Bulyan asks below Krum's own requirement)."""
    return int(np.argmin(krum_scores(x, max(1, len(np.asarray(x)) - f - 2), p, power)))


def krum(x: ArrayLike, f: int, p: float = 2.0, power: float = 2) -> Vector:
    """The row whose n - f - 2 nearest others are nearest, squared distances summed. Blanchard et al., NeurIPS 2017."""
    return narrow(np.asarray(x)[krum_row(x, f, p, power)])


def multi_krum_rows(x: ArrayLike, f: int, m: int | None = None, p: float = 2.0, power: float = 2) -> list[int]:
    """The m rows of least Krum score; m is n - f unless given."""
    n = len(np.asarray(x))
    return nearest(krum_scores(x, max(1, n - f - 2), p, power), n - f if m is None else m)


def multi_krum(x: ArrayLike, f: int, m: int | None = None, p: float = 2.0, power: float = 2) -> Vector:
    """The mean of the m rows of least Krum score. Blanchard et al., NeurIPS 2017."""
    return mean(np.asarray(x)[multi_krum_rows(x, f, m, p, power)])


def medoid_scores(x: ArrayLike, p: float = 2.0) -> Wide:
    """sum_j ||x_i - x_j||_p for each row i, in order of size: equal sets of distances give equal scores."""
    return wide(np.sort(distances(x, p), axis=1).sum(axis=1))


def medoid_row(x: ArrayLike, p: float = 2.0) -> int:
    """The row of least total distance to the others."""
    return int(np.argmin(medoid_scores(x, p)))


def medoid(x: ArrayLike, f: int = 0, p: float = 2.0) -> Vector:
    """The row of least total distance to the others. Xie et al., "Generalized Byzantine-tolerant SGD", 2018."""
    return narrow(np.asarray(x)[medoid_row(x, p)])


def geometric_median_start(x: ArrayLike, p: float = 2.0) -> Wide:
    """p = 2: the mean of the floor(n/2) + 1 rows nearest the medoid, which counts itself; other p: the comed."""
    rows = wide(x)
    if p != 2:
        return wide(comed(x))
    to_medoid = distances_to(rows, rows[medoid_row(rows)])
    return wide(rows[nearest(to_medoid, len(rows) // 2 + 1)].mean(axis=0))


def geometric_median(
    x: ArrayLike,
    f: int = 0,
    p: float = 2.0,
    smoothing: float = 1e-6,
    tolerance: float = 1e-13,
    iterations: int = 20_000,
) -> Vector:
    """Smoothed Weiszfeld: z <- sum_i w_i x_i / sum_i w_i with w_i = 1 / max(nu, ||x_i - z||_p).

    nu is `smoothing` times the median distance to the start; where that distance is 0 the start is the result. It
    stops when a step is at most `tolerance` median distances long, else gives the iterate that moved least. Pillutla
    et al., "Robust Aggregation for Federated Learning", IEEE TSP 2022, for p = 2. For other p the weights alone
    change, so that it is no minimiser of summed l_p distances.
    """
    rows, point = wide(x), geometric_median_start(x, p)
    radius = np.median(distances_to(rows, point, p))
    if radius == 0:
        return narrow(point)
    best, least = point, wide(np.inf)
    for _ in range(iterations):
        weights = 1 / np.maximum(np.longdouble(smoothing) * radius, distances_to(rows, point, p))
        # Divided first: a weight of 1e-38 for a row at 1e38 must not lose its digits
        moved = ((weights / weights.sum())[:, None] * rows).sum(axis=0)
        step = norms(moved - point, p)
        if step < least:
            best, least = moved, step
        if step <= tolerance * radius:
            return narrow(moved)
        point = moved
    return narrow(best)


def sum_of_distances(x: ArrayLike, point: ArrayLike, p: float = 2.0) -> np.longdouble:
    """What the geometric median makes least."""
    return np.longdouble(distances_to(x, point, p).sum())


def exact_geometric_median(x: ArrayLike) -> Vector:
    """The minimiser of sum_i ||x_i - z||_2: optimality at the rows, Newton's method elsewhere; d up to hundreds.

    A row of multiplicity c is a minimiser where the unit vectors towards the other rows sum to length c at most. When
    the rows lie on a line and n is even, a whole segment is least, and its middle is returned.
    """
    rows = wide(x)
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    stationary = []
    for k, row in enumerate(distinct):
        others = np.arange(len(distinct)) != k
        towards = distinct[others] - row
        pull = (counts[others, None] * towards / norms(towards)[:, None]).sum(axis=0)
        if norms(pull) <= counts[k] + np.longdouble(1e-15) * len(rows):
            stationary.append(row)
    if stationary:
        return narrow(np.mean(stationary, axis=0))
    point = wide(np.median(rows, axis=0))
    if (distances_to(distinct, point) == 0).any():
        point = rows.mean(axis=0)
    gradient, curvature = pull_on(distinct, counts, point)
    for _ in range(500):
        step = wide(np.linalg.solve(narrow(curvature), narrow(gradient)))
        # Newton's direction shortens the gradient, which, unlike the sum, a row at 1e38 does not swamp
        while norms(pull_on(distinct, counts, point - step)[0]) > norms(gradient) and norms(step) > 0:
            step = step / 2
        point = point - step
        gradient, curvature = pull_on(distinct, counts, point)
        if norms(step) <= 1e-17 * np.median(distances_to(rows, point)):
            break
    return narrow(point)


def pull_on(x: Wide, counts: NDArray[np.intp], point: Wide) -> tuple[Wide, Wide]:
    """The first and second derivative of sum_i counts_i ||x_i - point||_2."""
    away = point - x
    lengths = norms(away)
    units = away / lengths[:, None]
    identity = wide(np.eye(x.shape[1]))
    curvatures = [c / r * (identity - np.outer(u, u)) for c, r, u in zip(counts, lengths, units, strict=True)]
    return wide((counts[:, None] * units).sum(axis=0)), wide(np.sum(curvatures, axis=0))


# Bulyan

Selection = Callable[[Matrix, int], "int | Vector"]
Aggregator = Callable[[Matrix, int], Vector]


def krum_pick(x: ArrayLike, f: int, p: float = 2.0, power: float = 2) -> int:
    """Krum's row among those left; of equal scores (each other's only neighbour) the row whose further neighbours,
    compared one after another, are nearer."""
    neighbours = max(1, len(np.asarray(x)) - f - 2)
    further = np.sort(distances(x, p), axis=1)[:, neighbours + 1 :]
    keys = zip(krum_scores(x, neighbours, p, power), further.tolist(), strict=True)
    return min(enumerate(keys), key=lambda item: (*item[1], item[0]))[0]


def bulyan_rows(x: ArrayLike, f: int, selection: Selection | None = None, p: float = 2.0) -> list[int]:
    """The theta = n - 2f picks in the order of picking.

    Each is the row, of those left, that the selection names by index, or the one closest in l_p to the vector that it
    returns. The selection is Krum in l_p unless given.
    """
    choose: Selection = selection if selection is not None else lambda left, f: krum_pick(left, f, p)
    rows = np.asarray(x)
    left, picks = list(range(len(rows))), list[int]()
    while len(picks) < len(rows) - 2 * f:
        answer = choose(rows[left], f)
        index = answer if isinstance(answer, int) else int(np.argmin(distances_to(rows[left], answer, p)))
        picks.append(left.pop(index))
    return picks


def bulyan(
    x: ArrayLike, f: int, selection: Selection | None = None, second: Aggregator | None = None, p: float = 2.0
) -> Vector:
    """theta = n - 2f picks, then the mean of the beta = theta - 2f values nearest the median of each column.

    `second` puts another rule on the picks in place of the columnwise phase. El Mhamdi et al., ICML 2018.
    """
    picked = np.asarray(x)[bulyan_rows(x, f, selection, p)]
    return meamed(picked, 2 * f) if second is None else second(picked, f)


# Rules over subsets and spectra


def mda_rows(x: ArrayLike, f: int, p: float = 2.0) -> list[int]:
    """The n - f rows of least diameter, the lexicographically first of several, by trying all."""
    between = distances(x, p)
    subsets = itertools.combinations(range(len(between)), len(between) - f)
    return list(min(subsets, key=lambda rows: between[np.ix_(list(rows), list(rows))].max()))


def mda(x: ArrayLike, f: int, p: float = 2.0) -> Vector:
    """Minimum-diameter averaging: the mean of the n - f rows of least diameter. El Mhamdi et al., ICLR 2021."""
    return mean(np.asarray(x)[mda_rows(x, f, p)])


def neighbourhood_rows(x: ArrayLike, f: int) -> list[int]:
    """The n - f rows nearest to the row whose n - f nearest rows are closest to it, in squares."""
    between = distances(x)
    nearest = [np.argsort(row, kind="stable")[: len(between) - f] for row in between]
    best = min(range(len(between)), key=lambda i: (between[i, nearest[i]] ** 2).sum())
    return sorted(int(row) for row in nearest[best])


def top_direction(x: ArrayLike, weights: ArrayLike | None = None) -> tuple[float, Vector, Wide]:
    """The weighted covariance's largest eigenvalue, its unit eigenvector, and the mean it is about."""
    rows = wide(x)
    factors = wide(np.ones(len(rows)) if weights is None else weights)
    centre = (factors[:, None] * rows).sum(axis=0) / factors.sum()
    scaled = narrow((rows - centre) * np.sqrt(factors / factors.sum())[:, None])
    _, sizes, directions = np.linalg.svd(scaled, full_matrices=False)
    return float(sizes[0] ** 2), directions[0], centre


def smea_rows(x: ArrayLike, f: int) -> list[int]:
    """The n - f rows whose covariance has the smallest largest eigenvalue, by trying all."""
    rows = np.asarray(x)
    subsets = itertools.combinations(range(len(rows)), len(rows) - f)
    return list(min(subsets, key=lambda chosen: top_direction(rows[list(chosen)])[0]))


def smea(x: ArrayLike, f: int) -> Vector:
    """Smallest maximum eigenvalue averaging. Allouah et al., "Privacy-Robustness-Utility Trilemma", ICML 2023."""
    return mean(np.asarray(x)[smea_rows(x, f)])


def caf(x: ArrayLike, f: int) -> Vector:
    """Covariance-bound agnostic filter: the weighted mean at which the weighted covariance's top eigenvalue was least.

    Weights start at 1. While their sum exceeds n - 2f, each is multiplied by 1 - tau_i / max tau, tau_i being the
    squared length of x_i - mean along the top eigenvector and the maximum being over the rows that still have weight
    (over all rows, one at 1e38 that has lost its weight would keep the others' from ever falling). The weights that end
    the loop count too, unless their sum is below f + 1 or n - 2f - 1/2 of the largest. Without spread, or with f = 0,
    it is the mean. Allouah, Guerraoui, Stephan, "Towards Trustworthy Federated Learning with Untrusted Participants",
    ICML 2025.
    """
    rows = wide(x)
    weights, best, least = wide(np.ones(len(rows))), rows.mean(axis=0), math.inf
    while True:
        value, direction, centre = top_direction(rows, weights)
        if value < least:
            best, least = centre, value
        tau = ((rows - centre) * wide(direction)).sum(axis=1) ** 2
        tau = np.where(weights > 0, tau, 0)
        if tau.max() == 0 or weights.sum() <= len(rows) - 2 * f:
            break
        weights = weights * (1 - tau / tau.max())
        if weights.sum() < max(f + 1, len(rows) - 2 * f - 0.5) * weights.max():
            break
    return narrow(best)


def dnc_scores(x: ArrayLike) -> Wide:
    """The squared length of each centred row along the top right singular vector of the centred rows."""
    _, direction, centre = top_direction(x)
    return wide(((wide(x) - centre) * wide(direction)).sum(axis=1) ** 2)


def dnc_rows(x: ArrayLike, f: int, coordinates: Sequence[ArrayLike], fraction: float = 1.0) -> list[int]:
    """The rows that are among the n - floor(fraction f) of least score on every one of the sampled coordinate sets."""
    rows = np.asarray(x)
    kept = set(range(len(rows)))
    for sample in coordinates:
        kept &= set(nearest(dnc_scores(rows[:, np.asarray(sample)]), len(rows) - int(fraction * f)))
    return sorted(kept)


def dnc(x: ArrayLike, f: int, coordinates: Sequence[ArrayLike], fraction: float = 1.0) -> Vector:
    """Divide and conquer: the mean of the rows no sampled spectrum throws out. Shejwalkar, Houmansadr, NDSS 2021."""
    kept = dnc_rows(x, f, coordinates, fraction)
    if not kept:
        raise ValueError("No row is kept on all samples of coordinates.")
    return mean(np.asarray(x)[kept])


# Rules about a centre, a norm or a trusted vector


def monna_rows(x: ArrayLike, f: int, trusted: int | ArrayLike, p: float = 2.0) -> list[int]:
    """The n - f rows nearest the trusted row, given by its index (it counts itself) or as a vector."""
    rows = wide(x)
    pivot = rows[trusted] if isinstance(trusted, int) else wide(trusted)
    return nearest(distances_to(rows, pivot, p), len(rows) - f)


def monna(x: ArrayLike, f: int, trusted: int | ArrayLike, p: float = 2.0) -> Vector:
    """The mean of the n - f rows nearest a trusted row. Farhadkhani et al., "Robust Collaborative Learning with Linear
    Gradient Overhead", ICML 2023."""
    return mean(np.asarray(x)[monna_rows(x, f, trusted, p)])


def clip_factors(lengths: ArrayLike, radius: float | np.longdouble) -> Wide:
    """min(1, radius / length), 1 for length 0."""
    sizes = wide(lengths)
    return np.where(sizes > radius, np.longdouble(radius) / np.where(sizes > 0, sizes, 1), np.longdouble(1))


def centered_clipping(x: ArrayLike, f: int = 0, *, centre: ArrayLike, radius: float, iterations: int = 1) -> Vector:
    """v <- v + mean_i (x_i - v) min(1, radius / ||x_i - v||_2), from `centre`. Karimireddy et al., ICML 2021."""
    rows, point = wide(x), wide(centre)
    for _ in range(iterations):
        point = point + ((rows - point) * clip_factors(distances_to(rows, point), radius)[:, None]).mean(axis=0)
    return narrow(point)


def cge_rows(x: ArrayLike, f: int, p: float = 2.0) -> list[int]:
    """The n - f rows of least norm."""
    return nearest(norms(x, p), len(np.asarray(x)) - f)


def cge(x: ArrayLike, f: int, p: float = 2.0) -> Vector:
    """Comparative gradient elimination: the mean of the n - f rows of least norm (Gupta, Liu, Vaidya 2021 sum)."""
    return mean(np.asarray(x)[cge_rows(x, f, p)])


def aksel_rows(x: ArrayLike, keep: int | None = None) -> list[int]:
    """The rows whose squared distance to the comed is at most the median of these, or the `keep` nearest."""
    columns = np.sort(wide(x), axis=0)
    n = len(columns)
    squared = distances_to(x, (columns[(n - 1) // 2] + columns[n // 2]) / 2) ** 2
    if keep is not None:
        return nearest(squared, keep)
    return [i for i in range(n) if squared[i] <= np.median(squared)]


def aksel(x: ArrayLike, f: int = 0, keep: int | None = None) -> Vector:
    """The mean of the rows no farther from the comed than the median row. Boussetta et al., "AKSEL", OPODIS 2020."""
    return mean(np.asarray(x)[aksel_rows(x, keep)])


def distance_filter_rows(x: ArrayLike, factor: float = 1.5, p: float = 2.0) -> list[int]:
    """The rows whose median squared distance to the others is at most `factor` times the median of these.

    Of two middle values, the lower among a row's distances and the upper among the rows.
    """
    between, n = distances(x, p) ** 2, len(np.asarray(x))
    scores = [sorted(between[i][j] for j in range(n) if j != i)[(n - 2) // 2] for i in range(n)]
    return [i for i in range(n) if scores[i] <= factor * sorted(scores)[n // 2]]


def distance_filter(x: ArrayLike, f: int = 0, factor: float = 1.5, p: float = 2.0) -> Vector:
    """The mean of the rows that are not much farther from the others than is usual."""
    return mean(np.asarray(x)[distance_filter_rows(x, factor, p)])


def fltrust_scores(x: ArrayLike, trusted: ArrayLike) -> Wide:
    """max(0, cosine of the angle between a row and the trusted vector); 0 where either has no length."""
    rows, root = wide(x), wide(trusted)
    lengths, own = norms(rows), norms(root)
    if own == 0:
        return wide(np.zeros(len(rows)))
    units = rows / np.where(lengths > 0, lengths, 1)[:, None]
    return wide(np.maximum(0, (units * (root / own)).sum(axis=1)))


def fltrust(x: ArrayLike, f: int = 0, *, trusted: ArrayLike) -> Vector:
    """sum_i s_i (||root|| / ||x_i||) x_i / sum_i s_i with s_i = max(0, cos(x_i, root)); zero where all s_i are.

    Cao et al., "FLTrust", NDSS 2021.
    """
    rows, scores = wide(x), fltrust_scores(x, trusted)
    if scores.sum() == 0:
        return np.zeros(rows.shape[1])
    lengths = norms(rows)
    units = rows / np.where(lengths > 0, lengths, 1)[:, None]
    return narrow(norms(trusted) * (scores[:, None] * units).sum(axis=0) / scores.sum())


# Pre-aggregation: matrices to matrices


def nnm(x: ArrayLike, f: int, p: float = 2.0) -> Vector:
    """Nearest-neighbour mixing: each row becomes the mean of the n - f rows nearest to it, itself one of them.

    Allouah et al., "Fixing by Mixing", AISTATS 2023.
    """
    rows = np.asarray(x)
    between = distances(rows, p)
    return np.stack([mean(rows[nearest(between[i], len(rows) - f)]) for i in range(len(rows))])


def bucketing(x: ArrayLike, permutation: Sequence[int], size: int) -> Vector:
    """The means of consecutive groups of `size` of the permuted rows; the last group may be smaller.

    Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing", ICLR 2022.
    """
    rows = np.asarray(x)[np.asarray(permutation)]
    return np.stack([mean(rows[start : start + size]) for start in range(0, len(rows), size)])


def resampling(x: ArrayLike, permutation: Sequence[int], repeats: int) -> Vector:
    """s-resampling: n means of s rows each, in which each row occurs s times.

    `permutation` is of s n tickets; ticket t is for row t mod n; output i takes the i-th run of s tickets. He,
    Karimireddy, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Resampling", 2020.
    """
    rows = np.asarray(x)
    tickets = [ticket % len(rows) for ticket in permutation]
    return np.stack([mean(rows[tickets[i * repeats : (i + 1) * repeats]]) for i in range(len(rows))])


def clipping(x: ArrayLike, radius: float | np.longdouble, p: float = 2.0) -> Vector:
    """Each row times min(1, radius / its l_p norm)."""
    rows = wide(x)
    return narrow(rows * clip_factors(norms(rows, p), radius)[:, None])


def arc_radius(x: ArrayLike, f: int) -> np.longdouble:
    """The (k + 1)-th largest l_2 norm, k = floor(2 f (n - f) / n)."""
    lengths = np.sort(norms(x))[::-1]
    return np.longdouble(lengths[(2 * f * (len(lengths) - f)) // len(lengths)])


def arc(x: ArrayLike, f: int) -> Vector:
    """Adaptive robust clipping: clipping at the (k + 1)-th largest norm. Allouah et al., ICLR 2025."""
    return clipping(x, arc_radius(x, f))


def similarity_filter_rows(x: ArrayLike, eps: float, p: float = 2.0) -> list[int]:
    """The rows that have no other row closer than eps. Of two that are too close, both leave."""
    between = distances(x, p)
    return [i for i in range(len(between)) if all(between[i, j] >= eps for j in range(len(between)) if j != i)]


def similarity_filter(x: ArrayLike, eps: float, p: float = 2.0) -> Matrix:
    """The rows that have no other row closer than eps, as they are. MixTailor, TMLR 2022, appendix."""
    return np.asarray(x)[similarity_filter_rows(x, eps, p)]
