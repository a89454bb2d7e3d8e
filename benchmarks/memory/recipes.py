"""Recipes: from the updates of all trainings, (A, S, n, d), to the results, (A, S, d); A attacks, S seeds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from benchmarks.memory.attacks import Array
from benchmarks.memory.baselines import ByzantineSGD, CenteredClipping, Safeguard
from benchmarks.memory.views import (
    above_noise,
    along,
    caf,
    clip_factors,
    combined,
    copies,
    distance_filter,
    gram,
    nearest_median,
    shared,
    together,
    view_filter,
    view_of,
    widest,
)
from mixtailor.memory.views import effective_rounds

__all__ = ["DefaultPool", "Recipe", "Remembering", "recipes"]

Recipe = Callable[[Array, int], Array]
POOL = ("filter 2", "filter 3")  # of `recommended`


class Drawing:
    """What recipes share with and without a memory: clipping, sketches, and a draw in each round.

    The pool is of "filter 2" (with its bound), "distance" and "nearest".
    """

    def __init__(self, f: int, d: int, pool: Sequence[str], size: int = 1024):
        self.f, self.pool, self.size = f, pool, size
        self.random = np.random.default_rng(4242)
        turned = self.random.integers(size, size=-(-d // size))
        self.buckets = (np.arange(d) % size + turned[np.arange(d) // size]) % size
        self.signs = self.random.choice([-1.0, 1.0], d).astype(np.float32)
        self.fold = csr_matrix((self.signs, (np.arange(d), self.buckets)), shape=(d, size))

    def sketch(self, rows: Array) -> Array:
        return np.asarray(rows.reshape(-1, rows.shape[-1]) @ self.fold).reshape(*rows.shape[:-1], self.size)

    def _clipped(self, rows: Array) -> tuple[Array, Array, Array]:
        rows = rows * clip_factors(rows).astype(np.float32)
        sketches = self.sketch(rows)
        return rows, sketches, sketches - sketches.mean(2, keepdims=True)

    def _drawn(self, views: Array, wide: Array) -> Array:
        """The weights of the rule that each training draws, from its views (V, A, S, n, n) and the widest of them."""
        weights, drawn = np.zeros(wide.shape[:3]), self.random.integers(len(self.pool), size=wide.shape[:2])
        for place, name in enumerate(self.pool):
            here = drawn == place
            if here.any():
                weights[here] = self._decided(name, views[:, here], wide[here])
        return weights

    def _decided(self, name: str, views: Array, wide: Array) -> Array:
        if name.startswith("filter"):
            return view_filter(views, self.f, float(name.removeprefix("filter ")))
        return distance_filter(wide) if name == "distance" else nearest_median(wide, self.f)


class Forgetting(Drawing):
    """The recipe by this round alone: clipped updates, one view, the draw and copies that share one weight."""

    def __call__(self, rows: Array, _round: int) -> Array:
        rows, _sketches, now = self._clipped(rows)
        view = view_of(now)
        weights = self._drawn(view[None], view)
        return combined(shared(weights, copies(now), np.ones_like(weights)), rows)


class Remembering(Drawing):
    """The recipe with a memory."""

    pairs = 0.99  # the decay of the running mean with random signs, which shows who moves with whom
    along = (0.5, 0.8, 0.95)  # the decays of the running means of how far each worker is along the guide
    guiding = 0.97  # the decay of the guide, the running mean of the results

    def __init__(self, f: int, d: int, pool: Sequence[str], size: int = 1024, decays: Sequence[float] = (0.99,)):
        super().__init__(f, d, pool, size)
        self.decays = decays
        self.means: dict[float, Any] = {decay: np.float32(0.0) for decay in decays}
        self.signed: Any = np.float32(0.0)
        self.places: dict[float, Any] = {decay: np.float32(0.0) for decay in self.along}
        self.guide: Array | None = None
        self.last: Any = np.float32(0.0)  # the last deviations, over the usual length
        self.persisting: Array | None = None  # their inner products with those before, and the lengths of those

    def __call__(self, rows: Array, round: int) -> Array:
        rows, sketches, now = self._clipped(rows)
        unit = self._unit(now)
        signs = self.random.choice(np.float32([-1.0, 1.0]), self.size)
        before = self.persistence() * self.last
        guide = self._guide(sketches)
        views, wide, guided = self._views(now, signs * (now / unit - before), guide, round)
        weights = shared(self._drawn(views, wide), copies(now), self._following(guided))
        result = np.einsum("asn,asnk->ask", weights.astype(np.float32), sketches)
        deviations = sketches - result[:, :, None]
        for a in self.decays:
            self.means[a] = a * self.means[a] + (1 - a) * deviations
        deviations /= unit.astype(np.float32)
        self.signed = self.pairs * self.signed + (1 - self.pairs) * signs * (deviations - before)
        for a in self.along:
            self.places[a] = a * self.places[a] + (1 - a) * along(deviations, guide)
        self.guide = result if self.guide is None else self.guiding * self.guide + (1 - self.guiding) * result
        if round:
            found = np.stack([(self.last * deviations).sum(-1), (self.last**2).sum(-1)])
            self.persisting = 0.95 * (0.0 if self.persisting is None else self.persisting) + 0.05 * found
        self.last = deviations
        return combined(weights, rows)

    def tried(self, rows: Array, round: int, patient: Array | None = None) -> Array:
        """The expected results of candidates (C, S, n, d), over the draw; nothing is learnt.

        For an attacker who knows what is remembered and both rules, but neither the draw nor this round's signs. With
        `patient`, the Byzantine workers (S, b), as if these had always deviated as they do now.
        """
        rows, sketches, now = self._clipped(rows)
        signs = np.random.default_rng(round).choice(np.float32([-1.0, 1.0]), self.size)
        last = now / self._unit(now)
        kept: Any = self.persistence() * self.last
        guide, held = self._guide(sketches), (self.means, self.signed, self.places)
        means, signed, stands = dict(self.means), self.signed, dict(self.places)
        if patient is not None and round:
            shape, places = now.shape, (slice(None), np.arange(now.shape[1])[:, None], patient)
            for a in self.decays:
                means[a] = np.broadcast_to(means[a], shape).copy()
                means[a][places] = now[places]
            for a in self.along:
                stands[a] = np.broadcast_to(stands[a], shape[:3]).copy()
                stands[a][places] = along(last, guide)[places]
            kept = np.broadcast_to(kept, shape).copy()
            kept[places] = (self.persistence() * last)[places]
            signed = np.broadcast_to(signed, shape).copy()
            signed[places] = (np.sqrt((1 - self.pairs) / (1 + self.pairs)) * signs * (last - kept))[places]
        self.means, self.signed, self.places = means, signed, stands
        views, wide, guided = self._views(now, signs * (last - kept), guide, round)
        self.means, self.signed, self.places = held
        found, count, following = 0.0, copies(now), self._following(guided)
        for name in set(self.pool):
            flat = self._decided(
                name, views.reshape(len(views), -1, *views.shape[3:]), wide.reshape(-1, *wide.shape[2:])
            )
            weights = shared(flat.reshape(count.shape), count, following)
            found = found + self.pool.count(name) / len(self.pool) * combined(weights, rows)
        return np.asarray(found)

    def _unit(self, now: Array) -> Array:
        return np.maximum(np.sqrt(np.median((now**2).sum(-1), -1)), 1e-30)[..., None, None]

    def _guide(self, sketches: Array) -> Array:
        """The way that training goes, a unit vector."""
        found = sketches.mean(2) if self.guide is None else self.guide
        return np.asarray(found / np.maximum(np.linalg.norm(found, axis=-1, keepdims=True), 1e-30))

    def _views(self, now: Array, new: Array, guide: Array, round: int) -> tuple[Array, Array, Array]:
        """The rule's views, (V, A, S, n, n), the widest of this round's and the running means', and those of who goes
        with the training."""
        views = np.stack([view_of(now), *(view_of(a * self.means[a] + (1 - a) * now) for a in self.decays)])
        wide = widest(views)
        signed = self.pairs * self.signed + (1 - self.pairs) * new
        pairs = together(signed, effective_rounds(self.pairs, round + 1))
        stands = along(now / self._unit(now), guide)
        guided = [view_of((a * self.places[a] + (1 - a) * stands)[..., None]) for a in self.along]
        return np.concatenate([views, pairs[None]]), wide, np.stack(guided)

    def _following(self, guided: Array) -> Array:
        """The weights of who goes with the training, in [0, 1]."""
        flat = guided.reshape(len(guided), -1, *guided.shape[-2:])
        return above_noise(flat, self.f, 3.0).reshape(guided.shape[1:-1])

    def persistence(self) -> Any:
        """As `mixtailor.memory.history.History.persistence`, for many trainings."""
        if self.persisting is None:
            return np.float32(0.0)
        found = np.median(self.persisting[0] / np.maximum(self.persisting[1], 1e-300), -1)[..., None, None]
        return np.where(found < 0.3, 0.0, np.minimum(found, 0.99)).astype(np.float32)


def recipes(f: int, d: int) -> dict[str, Recipe]:
    """Recipes by name, each with an empty memory."""
    return {
        "recommended": Remembering(f, d, POOL),
        "ViewFilter with memory": Remembering(f, d, POOL[:1]),
        "ViewFilter(bound=3) with memory": Remembering(f, d, POOL[1:]),
        "DistanceFilter with memory": Remembering(f, d, ("distance",)),
        "recommended without a memory": Forgetting(f, d, POOL),
        "NNM >> GM with memory": Remembering(f, d, ("nearest",)),
        "CAF": lambda rows, _round: combined(caf(rows, f), rows),
        "default_pool": DefaultPool(f),
        "comed": lambda rows, _round: np.median(rows, 2),
        "Safeguard": Safeguard(),
        "ByzantineSGD": ByzantineSGD(),
        "centered clipping": CenteredClipping(),
    }


class DefaultPool:
    """The library's `default_pool`: a draw between CAF and NNM before the geometric median, without a memory."""

    def __init__(self, f: int) -> None:
        self.f, self.random = f, np.random.default_rng(4242)

    def __call__(self, rows: Array, _round: int) -> Array:
        first = self.random.integers(2, size=rows.shape[:2])[..., None] == 0
        return combined(np.where(first, caf(rows, self.f), nearest_median(gram(rows), self.f)), rows)
