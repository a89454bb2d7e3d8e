"""Hundreds of short trainings at once, in numpy, on small perceptrons."""

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.memory.attacks import Array
from benchmarks.memory.recipes import Recipe
from mixtailor.simulation import load

__all__ = ["SETTINGS", "Setting", "Trainings"]

Setting = tuple[int, int, float, int, int]

# Side of the pooling, hidden units, learning rate with momentum at the server, batch, rounds.
SETTINGS: dict[str, Setting] = {
    "digits": (1, 32, 0.05, 16, 200),
    "mnist": (2, 24, 0.02, 32, 300),
    "cifar10": (4, 24, 0.01, 32, 400),
}
OTHER: Setting = (1, 32, 0.05, 16, 200)  # data of your own, each column scaled to deviation 1


def changed(settings: Setting, options: argparse.Namespace) -> Setting:
    """Settings with what the options change: pooling, hidden units, batch, rounds, and a factor for the rate."""
    side, hidden, rate, batch, rounds = (
        before if getattr(options, name, None) is None else getattr(options, name)
        for name, before in zip(("pooling", "hidden", "rate", "batch", "rounds"), settings, strict=True)
    )
    return side, hidden, rate if getattr(options, "rate", None) is None else rate * settings[2], batch, rounds


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
