"""The recommended recipe against 73 attacks: hundreds of short trainings at once, in numpy, on small perceptrons.

``python -m benchmarks.memory digits --f 4 --seeds 3`` prints the worst case of each recipe. A training of the
simulation takes a second and one of these a tenth, so that recipes could be compared in minutes. They are batched
copies of the library's, and `tests/benchmarks/test_memory.py` compares the two. MNIST and CIFAR-10 are read from the
folder that MIXTAILOR_DATA names.
"""

import argparse
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy.sparse import csr_matrix
from scipy.stats import t

from benchmarks.memory_attacks import ATTACKS as LISTED
from benchmarks.memory_attacks import AVOIDING, TRYING
from benchmarks.memory_baselines import ByzantineSGD, CenteredClipping, Safeguard
from benchmarks.memory_found import FOUND
from mixtailor.memory.views import effective_rounds
from mixtailor.simulation import load

Array = np.ndarray[Any, Any]
Recipe = Callable[[Array, int], Array]
Setting = tuple[int, int, float, int, int]

# Side of the pooling, hidden units, learning rate with momentum at the server, batch, rounds.
SETTINGS: dict[str, Setting] = {
    "digits": (1, 32, 0.05, 16, 200),
    "mnist": (2, 24, 0.02, 32, 300),
    "cifar10": (4, 24, 0.01, 32, 400),
}
ATTACKS = {**LISTED, **FOUND}
NAMED = {**ATTACKS, **AVOIDING, **TRYING}
# What a kept record says of its command, where it is not the default.
_KEPT = ("f", "byzantine", "n", "momentum", "partition", "identities", "rate", "batch", "hidden", "pooling", "rounds")
OTHER: Setting = (1, 32, 0.05, 16, 200)  # data of your own, each column scaled to deviation 1


def changed(settings: Setting, options: argparse.Namespace) -> Setting:
    """Settings with what the options change: pooling, hidden units, batch, rounds, and a factor for the rate."""
    side, hidden, rate, batch, rounds = (
        before if getattr(options, name, None) is None else getattr(options, name)
        for name, before in zip(("pooling", "hidden", "rate", "batch", "rounds"), settings, strict=True)
    )
    return side, hidden, rate if getattr(options, "rate", None) is None else rate * settings[2], batch, rounds


# Recipes: from the updates of all trainings, (A, S, n, d), to the results, (A, S, d). A attacks, S seeds.


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


def above_noise(views: Array, f: int, slack: float = 1.0) -> Array:
    """As `mixtailor.rules.view_filter.above_noise`, for many trainings: weights in [0, 1]."""
    levels = slack * np.stack([filtered(view[None], f)[1] for view in views])
    return filtered(views, f, np.maximum(levels, 1e-9), 2.0)[0]


def view_filter(views: Array, f: int) -> Array:
    """The weights of `ViewFilter`."""
    weights = above_noise(views, f)
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


class Remembering:
    """The recipe with a memory, and a draw among "filter", "distance" and "nearest" each round."""

    pairs = 0.99  # the decay of the running mean with random signs, which shows who moves with whom
    along = (0.5, 0.8, 0.95)  # the decays of the running means of how far each worker is along the guide
    guiding = 0.97  # the decay of the guide, the running mean of the results

    def __init__(self, f: int, d: int, pool: Sequence[str], size: int = 1024, decays: Sequence[float] = (0.99,)):
        self.f, self.pool, self.decays, self.size = f, pool, decays, size
        self.random = np.random.default_rng(4242)
        turned = self.random.integers(size, size=-(-d // size))
        self.buckets = (np.arange(d) % size + turned[np.arange(d) // size]) % size
        self.signs = self.random.choice([-1.0, 1.0], d).astype(np.float32)
        self.fold = csr_matrix((self.signs, (np.arange(d), self.buckets)), shape=(d, size))
        self.means: dict[float, Any] = {decay: np.float32(0.0) for decay in decays}
        self.signed: Any = np.float32(0.0)
        self.places: dict[float, Any] = {decay: np.float32(0.0) for decay in self.along}
        self.guide: Array | None = None
        self.last: Any = np.float32(0.0)  # the last deviations, over the usual length
        self.persisting: Array | None = None  # their inner products with those before, and the lengths of those

    def sketch(self, rows: Array) -> Array:
        return np.asarray(rows.reshape(-1, rows.shape[-1]) @ self.fold).reshape(*rows.shape[:-1], self.size)

    def __call__(self, rows: Array, round: int) -> Array:
        rows, sketches, now = self._clipped(rows)
        unit = self._unit(now)
        signs = self.random.choice(np.float32([-1.0, 1.0]), self.size)
        before = self.persistence() * self.last
        guide = self._guide(sketches)
        views, wide, guided = self._views(now, signs * (now / unit - before), guide, round)
        weights, drawn = np.zeros(rows.shape[:3]), self.random.integers(len(self.pool), size=rows.shape[:2])
        for place, name in enumerate(self.pool):
            here = drawn == place
            if here.any():
                weights[here] = self._decided(name, views[:, here], wide[here])
        weights = shared(weights, copies(now), self._following(guided))
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

    def _clipped(self, rows: Array) -> tuple[Array, Array, Array]:
        rows = rows * clip_factors(rows).astype(np.float32)
        sketches = self.sketch(rows)
        return rows, sketches, sketches - sketches.mean(2, keepdims=True)

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

    def _decided(self, name: str, views: Array, wide: Array) -> Array:
        if name == "filter":
            return view_filter(views, self.f)
        return distance_filter(wide) if name == "distance" else nearest_median(wide, self.f)

    def persistence(self) -> Any:
        """As `mixtailor.memory.history.History.persistence`, for many trainings."""
        if self.persisting is None:
            return np.float32(0.0)
        found = np.median(self.persisting[0] / np.maximum(self.persisting[1], 1e-300), -1)[..., None, None]
        return np.where(found < 0.3, 0.0, np.minimum(found, 0.99)).astype(np.float32)


def recipes(f: int, d: int) -> dict[str, Recipe]:
    """Recipes by name, each with an empty memory."""
    return {
        "recommended": Remembering(f, d, ("filter", "filter", "filter", "distance")),
        "ViewFilter with memory": Remembering(f, d, ("filter",)),
        "DistanceFilter with memory": Remembering(f, d, ("distance",)),
        "NNM >> GM with memory": Remembering(f, d, ("nearest",)),
        "CAF": lambda rows, _round: combined(_caf(rows, f), rows),
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
        return combined(np.where(first, _caf(rows, self.f), nearest_median(gram(rows), self.f)), rows)


def _caf(rows: Array, f: int) -> Array:
    products = gram(rows)
    weights, _ = filtered(products.reshape(1, -1, *products.shape[-2:]), f)
    return np.asarray(weights / weights.sum(-1, keepdims=True)).reshape(products.shape[:-1])


# Training.


class Trainings:
    """All attacks and seeds under one recipe: perceptrons with one hidden layer, n workers, b of them Byzantine."""

    def __init__(self, data: str, attacks: Sequence[Any], seeds: Sequence[int], options: argparse.Namespace):
        side, self.hidden, rate, self.batch, self.rounds = changed(SETTINGS.get(data, OTHER), options)
        loaded = load(data)
        loaded = loaded.pooled(side) if side > 1 else loaded
        parts = (loaded.train_inputs, loaded.train_labels, loaded.test_inputs, loaded.test_labels)
        inputs, self.labels, tested, truth = (np.asarray(part) for part in parts)
        flat = [part.reshape(len(part), -1).astype(np.float32) / loaded.unit for part in (inputs, tested[:3000])]
        if side > 1 or data not in SETTINGS:
            axis = None if data in SETTINGS else 0
            middle, spread = flat[0].mean(axis), np.maximum(flat[0].std(axis), 1e-6)
            flat = [(part - middle) / spread for part in flat]
        self.inputs, self.tested, self.truth = flat[0], flat[1], truth[:3000]
        self.attacks, self.seeds, self.n, self.b = attacks, seeds, options.n, options.byzantine
        self.at_workers, self.identities = options.momentum == "worker", options.identities
        self.rate = rate * (10 if self.at_workers else 1)
        width = self.inputs.shape[1]
        self.classes = loaded.classes
        self.cuts = np.cumsum([width * self.hidden, self.hidden, self.hidden * self.classes, self.classes])
        self.d = int(self.cuts[-1])
        self.parts = [_parts(self.labels, self.n, seed, options.partition) for seed in seeds]

    def run(self, recipe: Recipe | None, watch: Callable[[int, Array, Array], None] | None = None) -> Array:
        """Accuracies in percent, (A, S); without a recipe, those of the mean of the honest updates.

        `watch` is called with each round, the weights after it, (A, S, d), and the honest workers, (S, h).
        """
        streams = [np.random.default_rng((seed, 5)) for seed in self.seeds]
        lead = (len(self.attacks), len(self.seeds))
        width, places = self.inputs.shape[1], np.arange(lead[1])[:, None]
        weights = np.zeros((*lead, self.d), np.float32)
        for place, stream in enumerate(streams):
            weights[:, place, : self.cuts[0]] = stream.normal(size=self.cuts[0]) / np.sqrt(width)
            second = stream.normal(size=self.hidden * self.classes) / np.sqrt(self.hidden)
            weights[:, place, self.cuts[1] : self.cuts[2]] = second
        byzantine, honest = self._cast(streams)
        states: list[dict[str, Any]] = [{} for _ in self.attacks]
        attacker, momenta = np.random.default_rng((self.seeds[0], 99)), np.float32(0.0)
        velocity, found = np.zeros_like(weights), []
        for round in range(self.rounds):
            if self.identities and round and round % self.identities == 0:
                byzantine, honest = self._cast(streams)
            updates = self._gradients(weights, streams)
            if self.at_workers:
                momenta = 0.9 * momenta + 0.1 * updates
                updates = momenta.copy()
            for place, attack in enumerate(self.attacks):
                rows = updates[place][places, honest]
                if hasattr(recipe, "tried"):
                    states[place]["tried"] = partial(self._tried, recipe, updates[place], byzantine, round)
                sent = attack(rows, self.b, round, self.rounds, states[place], attacker)
                updates[place][places, byzantine] = sent
            if recipe is None:
                step = np.stack([updates[:, k, honest[k]].mean(1) for k in range(lead[1])], 1)
            else:
                step = recipe(updates, round)
            step = np.where(np.isfinite(step), step, 0.0)
            for place, state in enumerate(states):
                state["result"] = step[place]
            velocity = step if self.at_workers else 0.9 * velocity + step
            weights -= self.rate * velocity
            if watch is not None:
                watch(round, weights, honest)
            if round >= self.rounds - 40 and (self.rounds - 1 - round) % 10 == 0:
                found.append((self._scores(weights, self.tested[None, None])[1].argmax(-1) == self.truth).mean(-1))
        return 100.0 * np.mean(found, 0)

    def _tried(self, recipe: Any, updates: Array, byzantine: Array, round: int, sent: Array, patient: bool) -> Array:
        """What the recipe would make of candidates (C, S, b, d), for the only attack of these trainings."""
        if len(self.attacks) > 1:
            raise ValueError("An attack that tries its updates on the memory needs trainings of its own: it alone.")
        rows = np.repeat(updates[None], len(sent), 0)
        rows[:, np.arange(len(updates))[:, None], byzantine] = sent
        return np.asarray(recipe.tried(rows, round, byzantine if patient else None))

    def _cast(self, streams: Sequence[np.random.Generator]) -> tuple[Array, Array]:
        byzantine = [sorted(stream.choice(self.n, self.b, replace=False).tolist()) for stream in streams]
        honest = [[worker for worker in range(self.n) if worker not in set(some)] for some in byzantine]
        return np.array(byzantine), np.array(honest)

    def _layers(self, flat: Array) -> tuple[Array, Array, Array, Array]:
        first, one, second, two = np.split(flat, self.cuts[:-1], axis=-1)
        shaped = (
            first.reshape(*first.shape[:-1], -1, self.hidden),
            second.reshape(*second.shape[:-1], self.hidden, self.classes),
        )
        return shaped[0], one[..., None, :], shaped[1], two[..., None, :]

    def _scores(self, weights: Array, inputs: Array) -> tuple[Array, Array]:
        first, one, second, two = self._layers(weights)
        hidden = np.maximum(np.matmul(inputs, first) + one, 0.0)
        return hidden, np.matmul(hidden, second) + two

    def _gradients(self, weights: Array, streams: Sequence[np.random.Generator]) -> Array:
        lead, n, size = weights.shape[:2], self.n, self.batch
        drawn = [
            [part[s.integers(len(part), size=size)] for part in parts]
            for s, parts in zip(streams, self.parts, strict=True)
        ]
        inputs, labels = self.inputs[np.array(drawn)], self.labels[np.array(drawn)]
        hidden, scores = self._scores(weights, inputs.reshape(1, lead[1], n * size, -1))
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        off = (scores / scores.sum(-1, keepdims=True)).reshape(*lead, n, size, self.classes)
        off = (off - (np.arange(self.classes) == labels[None, ..., None])) / np.float32(size)
        second = self._layers(weights)[2]
        back = np.matmul(off.reshape(*lead, n * size, self.classes), second.swapaxes(-1, -2)) * (hidden > 0.0)
        back, hidden = back.reshape(*lead, n, size, -1), hidden.reshape(*lead, n, size, -1)
        pieces = (
            np.matmul(inputs[None].swapaxes(-1, -2), back).reshape(*lead, n, -1),
            back.sum(3),
            np.matmul(hidden.swapaxes(-1, -2), off).reshape(*lead, n, -1),
            off.sum(3),
        )
        return np.concatenate(pieces, -1).astype(np.float32)


def _parts(labels: Array, n: int, seed: int, partition: str) -> list[Array]:
    random = np.random.default_rng((seed, 77))
    if partition == "iid":
        return np.array_split(random.permutation(len(labels)), n)
    if partition == "label":
        chunks = np.array_split(np.argsort(labels, kind="stable"), n)
        return [chunks[place] for place in random.permutation(n)]
    parts: list[list[int]] = [[] for _ in range(n)]
    for kind in range(int(labels.max()) + 1):
        those = random.permutation(np.flatnonzero(labels == kind))
        shares = np.cumsum(random.dirichlet([float(partition)] * n))[:-1]
        for part, chunk in zip(parts, np.split(those, (shares * len(those)).astype(int)), strict=True):
            part.extend(chunk.tolist())
    return [np.array(part or [0]) for part in parts]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.memory", description=__doc__)
    parser.add_argument("data", help="digits, mnist, cifar10, or data of your own: a csv or npz file")
    parser.add_argument("--f", type=int, default=4, help="the f that the recipe is given")
    parser.add_argument("--byzantine", type=int, help="how many there are; f by default")
    parser.add_argument("--n", type=int, default=12)
    parser.add_argument("--momentum", choices=("worker", "server"), default="worker")
    parser.add_argument("--partition", default="iid", help="iid, label, or Dirichlet's alpha")
    parser.add_argument("--identities", type=int, default=0, help="Byzantine identities change every so many rounds")
    parser.add_argument("--rate", type=float, help="a factor for the learning rate")
    parser.add_argument("--batch", type=int, help="examples for each worker and round")
    parser.add_argument("--hidden", type=int, help="hidden units")
    parser.add_argument("--pooling", type=int, help="the side of the pooled squares; 1 keeps all pixels")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--recipes", help="some of them, separated by commas")
    parser.add_argument("--attacks", help="some of them, separated by semicolons")
    parser.add_argument(
        "--worst", type=int, help="all attacks with the first seed, then so many of each recipe's worst with all"
    )
    parser.add_argument("--keep", type=Path, help="a JSON file that gets the numbers, too")
    options = parser.parse_args(arguments)
    given = {name: getattr(options, name) for name in _KEPT if getattr(options, name) != parser.get_default(name)}
    options.byzantine = options.f if options.byzantine is None else options.byzantine
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    chosen = [name.strip() for name in options.attacks.split(";")] if options.attacks else list(ATTACKS)
    honest = Trainings(options.data, [ATTACKS["none"]], seeds, options).run(None)[0]
    print(f"omniscient: {honest.mean():.1f}")
    names = options.recipes.split(",") if options.recipes else list(recipes(options.f, 1))
    tried = len(chosen)
    if options.worst:  # of any recipe: which attacks one seed shows as the worst is partly chance
        first = {name: _accuracies(name, chosen, seeds[:1], options)[:, 0] for name in names}
        worst = [np.array(chosen)[np.argsort(found)[: options.worst]].tolist() for found in first.values()]
        chosen = list(dict.fromkeys(attack for those in worst for attack in those))
    ours: Array | None = None
    kept: dict[str, Any] = {}
    for name in names:
        found = _accuracies(name, chosen, seeds, options)
        means, lowest = found.mean(1), found[found.mean(1).argmin()]
        listed = ", ".join(f"{chosen[place]} {means[place]:.1f}" for place in np.argsort(means)[:3])
        text = f"{name}: {means.min():.1f}, {_interval(honest - lowest)} below omniscient ({listed})"
        print(text if ours is None else f"{text}; {names[0]} is {_compared(ours, found, chosen)}", flush=True)
        below, half = _mean_and_half(honest - lowest)
        kept[name] = {"accuracy": means.min(), "below": below, "interval": half, "attack": chosen[means.argmin()]}
        if ours is not None:
            kept[name]["above"] = _mean_and_half(ours[ours.mean(1).argmin()] - lowest)
        ours = found if ours is None else ours
    if options.keep:
        settings = {"f": options.f, "momentum": options.momentum, **given}
        record = {"data": Path(options.data).stem, "options": settings, "seeds": [seeds[0], seeds[-1]]}
        keep(options.keep, {**record, "attacks": tried, "omniscient": honest.mean(), "recipes": kept})


def keep(path: Path, record: Mapping[str, Any]) -> None:
    """Add a record to a JSON file, in place of what the same command gave before."""
    kept = {_command(each): each for each in [*(json.loads(path.read_text()) if path.exists() else []), record]}
    path.write_text("[\n" + ",\n".join(json.dumps(_rounded(each)) for each in kept.values()) + "\n]\n")


def _command(record: Mapping[str, Any]) -> str:
    return json.dumps([record["data"], record["options"], record["seeds"], sorted(record["recipes"])])


def _rounded(value: Any) -> Any:
    """The same with numbers of two digits."""
    if isinstance(value, Mapping):
        return {name: _rounded(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_rounded(inner) for inner in value]
    return round(float(value), 2) if isinstance(value, float) else value


def _accuracies(name: str, attacks: Sequence[str], seeds: range, options: argparse.Namespace) -> Array:
    """Of a recipe with an empty memory, (A, S)."""
    alone = [attack for attack in attacks if attack in TRYING]
    together = [attack for attack in attacks if attack not in TRYING]
    found = {}
    for those in ([together] if together else []) + [[attack] for attack in alone]:
        trainings = Trainings(options.data, [NAMED[attack] for attack in those], seeds, options)
        found |= dict(zip(those, trainings.run(recipes(options.f, trainings.d)[name]), strict=True))
    return np.array([found[attack] for attack in attacks])


def _compared(ours: Array, theirs: Array, attacks: Sequence[str]) -> str:
    """How much higher we are, by seed: each under its own worst attack, and under the attack with the largest loss."""
    worst = _interval(ours[ours.mean(1).argmin()] - theirs[theirs.mean(1).argmin()])
    place = (ours - theirs).mean(1).argmin()
    return f"{worst} above it, {_interval((ours - theirs)[place])} where it is least so ({attacks[place]})"


def _interval(values: Array) -> str:
    """The mean over the seeds, with its 95 % interval."""
    mean, half = _mean_and_half(values)
    return f"{mean:.1f}" if len(values) < 2 else f"{mean:.1f} +- {half:.1f}"


def _mean_and_half(values: Array) -> tuple[float, float]:
    """The mean, and half of its 95 % interval: 0 for one value, which has none."""
    if len(values) < 2:
        return float(values.mean()), 0.0
    return float(values.mean()), float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))


if __name__ == "__main__":
    main()
