"""What is kept of each worker: running means of sketches, a few kilobytes each."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.kernels.selection import median
from mixtailor.memory.views import copies, effective_rounds, together, view_of
from mixtailor.storage.group import Group

__all__ = ["MOST_WORKERS", "History", "Recall"]

MOST_WORKERS = 1 << 16  # 1.1 gigabytes, with the sketches and time scales that are the default
# The decays of the running means with random signs. The second shows sooner who has begun to move together.
_TOGETHER = (0.99, 0.95)
_MOST = float(np.finfo(np.float32).max)  # an infinity would never leave a running mean


@final
class History:
    """Running means, at several time scales, of how each worker's sketch deviates from the result's.

    Two more have signs that are drawn again in each call: the inner products of two workers' means are sums over the
    rounds of the inner products of the deviations, and show who moves with whom.

    Parameters
    ----------
    key : int
        The secret of the sketches, 64 bits: whoever knows it can make updates whose deviations cancel in a sketch.
    decays : tuple of float
        A running mean with decay a gives a deviation of t rounds ago the weight ``(1 - a) a^t``.
    size : int
        The numbers in a sketch.
    """

    def __init__(self, key: int, decays: tuple[float, ...], size: int) -> None:
        self.key, self.decays, self.size = key, decays, size
        self.means: dict[str, Floats] = {}  # by worker, (time scales and those with signs, size) in float32
        self.rounds: dict[str, int] = {}
        self.calls = 0
        self.d: int | None = None  # the coordinates of the updates, once there were some

    def settle(self, group: Group | None) -> None:
        """Where several processes share the coordinates of a call: one key, and memories of the same rounds."""
        if group is None:
            return
        key = self.key if self.means else 0  # while nothing is remembered, each process has a key of its own
        known = np.array([number % (1 << 20) for number in (len(self.means), self.calls, key)], float)
        total, _ = group.sum(np.stack([known, known**2]), False)
        if (total[0] ** 2 != group.count * total[1]).any():  # equal on all processes only if their variance is zero
            refuse(
                "The memories of the ranks are not of the same rounds, so each rank would weigh its slice of the "
                "updates differently. Restore the same state on all ranks, or make a new memory on all of them."
            )
        if not self.means:
            own = np.frombuffer(self.key.to_bytes(8, "big"), np.uint8)
            self.key = int.from_bytes(np.asarray(group.agreed(own), np.uint8).tobytes(), "big")

    def check_length(self, d: int) -> None:
        """Refuse updates of another length than before: sketches of two models cannot be compared."""
        if self.d not in (None, d):
            refuse(
                f"This memory is of updates with {self.d} coordinates, and these have {d}. Make a memory for each "
                "training, and reset() it when the model changes."
            )

    def scales(self) -> Floats:
        """The decay of each running mean, those with signs last, as factors of (scales, n, size)."""
        return np.array([*self.decays, *_TOGETHER])[:, None, None]

    def signs(self, deviations: Floats) -> Floats:
        """The random signs of this call, over the usual length: rounds count alike, however long their updates are."""
        lengths = (deviations**2).sum(axis=1)
        unit = float(np.sqrt(median(lengths) or lengths.max())) or 1.0
        bits = np.random.default_rng([self.key, self.calls]).integers(0, 2, self.size).astype(np.float64)
        return (2.0 * bits - 1.0) / unit

    def effective_rounds(self, workers: Sequence[str]) -> list[float]:
        """Of how many rounds with equal weights each mean with signs has the noise, this call included."""
        rounds = 1.0 + median(np.array([self.rounds.get(worker, 0) for worker in workers]))
        return [effective_rounds(decay, rounds) for decay in _TOGETHER]

    def means_of(self, workers: Sequence[str]) -> Floats:
        """The running means of these workers, (scales, n, size). A worker that is new has deviated by nothing."""
        none = np.zeros((len(self.decays) + len(_TOGETHER), self.size), np.float32)
        found = [self.means.get(worker, none) for worker in workers]
        return np.stack(found, axis=1).astype(np.float64)

    def advance(self, workers: Sequence[str], means: Floats) -> None:
        """Keep new running means; of workers that did not take part, the old ones stay."""
        self.calls += 1
        for place, worker in enumerate(workers):
            self.means.pop(worker, None)  # whoever came last stands last
            self.means[worker] = np.clip(means[:, place], -_MOST, _MOST).astype(np.float32)
            self.rounds[worker] = self.rounds.get(worker, 0) + 1
        for worker in list(self.means)[: -max(len(workers), MOST_WORKERS)]:
            del self.means[worker], self.rounds[worker]

    def state(self) -> dict[str, Any]:
        """Everything, as arrays and plain values."""
        workers = list(self.means)
        means = np.stack([self.means[name] for name in workers]) if workers else np.zeros((0,))
        return {
            "key": self.key,
            "decays": list(self.decays),
            "size": self.size,
            "workers": workers,
            "rounds": [self.rounds[name] for name in workers],
            "calls": self.calls,
            "d": self.d,
            "means": means,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace everything by what `state` gave."""
        try:
            key, decays, size = int(state["key"]), tuple(map(float, state["decays"])), int(state["size"])
            workers, rounds = [str(name) for name in state["workers"]], [int(count) for count in state["rounds"]]
            means = np.array(state["means"], np.float32)  # a copy: the caller may change its state
            d = None if state["d"] is None else int(state["d"])
            calls = int(state["calls"])
        except (KeyError, TypeError, ValueError, OverflowError):
            refuse("A memory needs the state that another memory gave, and got something else.")
        counts = [*rounds, 1 if d is None else d, 1 + calls - max(rounds, default=0)]
        if not 0 <= key < 1 << 64 or len(set(workers)) < len(workers) or not 1 <= min(counts) <= max(counts) < 1 << 53:
            refuse("The state of a memory is damaged: its key, its names or its counts cannot be those of a memory.")
        if (decays, size) != (self.decays, self.size):
            refuse(
                f"This memory has decays {self.decays} and size {self.size}, and the state is of one with {decays} and "
                f"{size}. Make a memory like the one that gave the state."
            )
        shape = (len(workers), len(decays) + len(_TOGETHER), size) if workers else (0,)
        if means.shape != shape or len(rounds) != len(workers) or not np.isfinite(means).all():
            refuse("The state of a memory is damaged: its numbers do not fit its workers.")
        self.key, self.d, self.calls = key, d, calls
        self.means, self.rounds = dict(zip(workers, means, strict=True)), dict(zip(workers, rounds, strict=True))


@final
class Recall:
    """One call: what the history says of the workers that sent something, and what it will say afterwards.

    Parameters
    ----------
    history : History
    workers : sequence of str
        The name of each received update.
    suspects : bool
        Whether suspects are counted: not where an attacker only tries updates.

    Attributes
    ----------
    copies : array
        After `views`: how many workers sent nearly the same update as each, itself included.
    """

    def __init__(self, history: History, workers: Sequence[str], *, suspects: bool = True) -> None:
        self.history, self.workers, self.suspects = history, workers, suspects
        self._names: list[str] = []
        self._d = 0
        self._sketches = self._means = self._signs = self.copies = np.zeros(0)
        self._weights: Floats | None = None

    def views(
        self, sketches: Floats, received: Sequence[int], d: int, mass: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """The views of this round and of all time scales, and those of who moves with whom, V x n x n each."""
        self.history.check_length(d)
        self._d = d
        self._names, self._sketches = [self.workers[row] for row in received], sketches
        self._means = self.history.means_of(self._names)
        # Any common centre gives the same view: it is centred again. The result is not known yet, so the mean is taken.
        now = sketches - sketches.mean(axis=0)
        self._signs = self.history.signs(now)
        means = self._moved(now)
        self.copies = copies(now, mass)
        steady, signed = means[: -len(_TOGETHER)], means[-len(_TOGETHER) :]
        rounds = self.history.effective_rounds(self._names)
        pairs = [together(mean, count, mass) for mean, count in zip(signed, rounds, strict=True)]
        return np.stack([view_of(now, mass), *(view_of(mean, mass) for mean in steady)]), np.stack(pairs)

    def _moved(self, deviations: Floats) -> Floats:
        """The running means with this call's deviations."""
        scales = self.history.scales()
        added = np.stack([deviations] * len(self.history.decays) + [self._signs * deviations] * len(_TOGETHER))
        return np.asarray(scales * self._means + (1.0 - scales) * added)

    def decided(self, weights: Floats) -> None:
        """Note the weights of the result."""
        self._weights = weights

    def commit(self) -> None:
        """Add this round to the history, as deviations from its result."""
        if self._weights is None:
            return
        self.history.d = self._d
        self.history.advance(self._names, self._moved(self._sketches - self._weights @ self._sketches))
