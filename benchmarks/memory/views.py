"""Views of the workers and rules on them, for many trainings at once: batched copies of the library's.

They take the updates of all trainings, (A, S, n, d) with A attacks and S seeds, or inner products, (..., n, n).
`tests/benchmarks/test_memory.py` compares them with `mixtailor.memory.views` and the rules.
"""

import numpy as np

from benchmarks.memory.attacks import Array

__all__ = [
    "above_noise",
    "along",
    "caf",
    "clip_factors",
    "combined",
    "copies",
    "distance_filter",
    "filtered",
    "gram",
    "nearest_median",
    "shared",
    "together",
    "view_filter",
    "view_of",
    "widest",
]


def gram(rows: Array) -> Array:
    """Inner products."""
    return np.asarray(np.matmul(rows, rows.swapaxes(-1, -2)), np.float64)


def centred(products: Array, weights: Array) -> Array:
    """Inner products about the weighted mean."""
    mixed = np.einsum("...ij,...j->...i", products, weights)
    inner = np.einsum("...i,...i->...", mixed, weights)
    return products - mixed[..., None] - mixed[..., None, :] + inner[..., None, None]


def view_of(rows: Array) -> Array:
    """As `mixtailor.memory.views.view_of`, for many trainings."""
    products = gram(rows)
    n = products.shape[-1]
    products = centred(products, np.full(products.shape[:-1], 1.0 / n))
    diagonal = np.einsum("...ii->...i", products)
    unit = np.maximum(np.median(diagonal, -1, keepdims=True), 1e-300)
    quiet = np.maximum(0.0, 1.0 - diagonal / unit)
    return products / unit[..., None] + quiet[..., None] * np.eye(n)


def together(rows: Array, rounds: float) -> Array:
    """As `mixtailor.memory.views.together`, for many trainings."""
    view = view_of(rows)
    return np.asarray(view - 0.85 * (1.0 - 1.0 / rounds) * np.eye(view.shape[-1]))


def widest(views: Array) -> Array:
    """As `mixtailor.memory.views.widest`, for many trainings: (V, ..., n, n) to (..., n, n)."""
    n = views.shape[-1]
    spreads = np.linalg.eigvalsh(centred(views, np.full(views.shape[:-1], 1.0 / n)))[..., -1]
    return np.asarray(np.take_along_axis(views, spreads.argmax(0)[None, ..., None, None], 0)[0])


def filtered(views: Array, f: int, levels: Array | None = None, enough: float = 0.0) -> tuple[Array, Array]:
    """As `mixtailor.rules._spectra.filtered`: (V, B, n, n) to weights in [0, 1], (B, n), and the spreads, (B,)."""
    n = views.shape[-1]
    levels = np.ones(views.shape[:2]) if levels is None else levels
    weights, least = np.ones((views.shape[1], n)), np.full(views.shape[1], np.inf)
    best, live = weights.copy(), np.arange(views.shape[1])
    while len(live):
        now = weights[live]
        share = now / now.sum(-1, keepdims=True)
        root, top, away = np.sqrt(share), np.full(len(live), -np.inf), np.zeros_like(now)
        for view, level in zip(views, levels, strict=True):
            about = centred(view[live], share)
            values, vectors = np.linalg.eigh(about * root[..., None] * root[:, None])
            size = values[:, -1] / level[live]
            wider = size > top
            found = np.abs(np.einsum("bij,bj->bi", about, root * vectors[..., -1]))
            top[wider], away[wider] = size[wider], found[wider]
        better = top < least[live]
        best[live[better]], least[live[better]] = now[better], top[better]
        away *= now > 0.0
        farthest = away.max(-1, keepdims=True)
        done = (top <= enough) | (now.sum(-1) <= n - 2 * f) | (farthest[:, 0] == 0.0)
        lower = now * (1.0 - (away / np.where(farthest == 0.0, 1.0, farthest)) ** 2)
        done |= (lower.sum(-1) < max(f + 1, n - 2 * f - 0.5) * lower.max(-1)) | (lower.max(-1) == 0.0)
        weights[live], live = lower, live[~done]
    return best, least


def above_noise(views: Array, f: int, slack: float = 1.0, bound: float = 2.0) -> Array:
    """As `mixtailor.rules.view_filter.above_noise`, for many trainings: weights in [0, 1]."""
    levels = slack * np.stack([filtered(view[None], f)[1] for view in views])
    return filtered(views, f, np.maximum(levels, 1e-9), bound)[0]


def view_filter(views: Array, f: int, bound: float = 2.0) -> Array:
    """The weights of `ViewFilter`."""
    weights = above_noise(views, f, bound=bound)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def shared(weights: Array, copies: Array, following: Array) -> Array:
    """Weights of which copies share one, times those of who goes with the training."""
    weights = weights / copies
    weights /= weights.sum(-1, keepdims=True)
    both = weights * following
    total = both.sum(-1, keepdims=True)
    return np.where(total >= 1.0 / weights.shape[-1], both / np.maximum(total, 1e-300), weights)


def squares_of(products: Array) -> Array:
    """Squared distances from inner products."""
    diagonal = np.einsum("...ii->...i", products)
    return np.maximum(diagonal[..., None] + diagonal[..., None, :] - 2 * products, 0.0)


def typical(squares: Array) -> tuple[Array, Array]:
    """Each row's median squared distance to the others, and the median of these."""
    place = squares.shape[-1] // 2
    scores = np.partition(squares, place, -1)[..., place]
    return scores, np.sort(scores, -1)[..., place, None]


def distance_filter(products: Array) -> Array:
    """The weights of `DistanceFilter`, from inner products."""
    scores, usual = typical(squares_of(products))
    kept = scores <= 1.5 * usual
    return np.asarray(kept / kept.sum(-1, keepdims=True))


def copies(rows: Array) -> Array:
    """As `mixtailor.memory.views.copies`, for many trainings."""
    squares = squares_of(gram(rows))
    near = squares < 0.25 * typical(squares)[1][..., None]
    return np.asarray((near | np.eye(near.shape[-1], dtype=bool)).sum(-1))


def nearest_median(products: Array, f: int, iterations: int = 60) -> Array:
    """The weights of NNM before the geometric median, from inner products."""
    n = products.shape[-1]
    squares = squares_of(products)
    mixing = np.zeros(products.shape)
    np.put_along_axis(mixing, np.argsort(squares, -1)[..., : n - f], 1.0 / (n - f), -1)
    mixed = mixing @ products @ mixing.swapaxes(-1, -2)
    own = np.einsum("...ii->...i", mixed)
    weights = np.full(own.shape, 1.0 / n)
    for _ in range(iterations):
        inner = np.einsum("...ij,...j->...i", mixed, weights)
        length = np.einsum("...i,...i->...", inner, weights)[..., None]
        away = np.sqrt(np.maximum(own - 2 * inner + length, 0.0))
        weights = 1.0 / np.maximum(away, 1e-6 * np.median(away, -1, keepdims=True) + 1e-300)
        weights /= weights.sum(-1, keepdims=True)
    return np.asarray(np.einsum("...i,...ij->...j", weights, mixing))


def along(rows: Array, guide: Array) -> Array:
    """How far each row goes along a direction, (..., n)."""
    return np.asarray(np.einsum("...nk,...k->...n", rows, guide))


def clip_factors(rows: Array) -> Array:
    """What makes updates no longer than the median, (..., n, 1)."""
    lengths = np.sqrt((rows.astype(np.float64) ** 2).sum(-1, keepdims=True))
    return np.minimum(1.0, np.median(lengths, -2, keepdims=True) / np.maximum(lengths, 1e-300))


def combined(weights: Array, rows: Array) -> Array:
    return np.asarray(np.einsum("asn,asnd->asd", weights.astype(np.float32), rows))


def caf(rows: Array, f: int) -> Array:
    products = gram(rows)
    weights, _ = filtered(products.reshape(1, -1, *products.shape[-2:]), f)
    return np.asarray(weights / weights.sum(-1, keepdims=True)).reshape(products.shape[:-1])
