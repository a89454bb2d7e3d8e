"""What is kept of each worker: running means of sketches, a few kilobytes each."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.kernels.selection import median
from mixtailor.kernels.weighted import median_of
from mixtailor.memory.views import copies, effective_rounds, together, view_of
from mixtailor.rules.view_filter import above_noise
from mixtailor.storage.group import Group

__all__ = ["MOST_WORKERS", "History", "Recall"]

MOST_WORKERS = 1 << 16  # 0.8 gigabytes, with the sketches and the time scale that are the default
_TOGETHER = 0.99  # the decay of the running mean with random signs
# How far a worker goes along the guide is remembered at three time scales, and the guide itself over about thirty
# rounds. Chosen on digits, seeds 0 to 3: with a guide of ten or a hundred rounds, pulses by five of twelve harm more.
_ALONG, _GUIDING, _SLACK = (0.5, 0.8, 0.95), 0.97, 3.0
_LAST = 0.0  # a running mean with this decay is the last deviation itself
# Persistence is measured over about twenty rounds. Below 0.3 it counts as none, and a deviation is taken as it is.
# Chosen on digits, seeds 0 to 4; 0.5 does as well. With momentum at the server and iid data it is below 0.1 on digits
# and MNIST, with momentum of 0.9 at the workers about 0.9.
_PERSISTENCE, _LEAST, _MOST_PERSISTENT = 0.95, 0.3, 0.99
_SCALES = np.array(_ALONG)[:, None]
_MOST = float(np.finfo(np.float32).max)  # an infinity would never leave a running mean


@final
class History:
    """Running means, at several time scales, of how each worker's sketch deviates from the result's.

    One more has signs that are drawn again in each call: the inner products of two workers' means are sums over the
    rounds of the inner products of what was new in the deviations, and show who moves with whom. What is new is the
    deviation less `persistence` times the last one. With momentum at the workers, or with data that differ, honest
    deviations hardly change from one round to the next: a hundred rounds then say as little as ten, and honest
    workers seem to move together. What is new in each round is unrelated.

    The guide is the running mean of the results: the way that training goes. A push that matters is against it or with
    it in the end. In one direction that is known beforehand, a push stands out that is lost among all others, so that
    running means are also kept of how far each worker's deviations go along the guide.

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
        self.means: dict[str, Floats] = {}  # by worker, (time scales, that with signs, the last; size) in float32
        self.along: dict[str, Floats] = {}  # by worker, one number for each decay of these
        self.guide: Floats | None = None  # the running mean of the results' sketches
        self.persisting: dict[str, Floats] = {}  # by worker: inner products with the last deviation, and its lengths
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
        """The decay of each running mean, that with signs behind, the last deviation last; for (scales, n, size)."""
        return np.array([*self.decays, _TOGETHER, _LAST])[:, None, None]

    def signs(self) -> Floats:
        """The random signs of this call."""
        bits = np.random.default_rng([self.key, self.calls]).integers(0, 2, self.size).astype(np.float64)
        return 2.0 * bits - 1.0

    def persistence(self, workers: Sequence[str]) -> float:
        """How much of a deviation is left in the next one: the median over the workers that have come before.

        The slope of a regression of each deviation on the last one, from 0 to 0.99; 0 where it is below 0.3.
        """
        known = [self.persisting[worker] for worker in workers if worker in self.persisting]
        slopes = [shared / length for shared, length in known if length > 0.0]
        found = median(np.array(slopes)) if slopes else 0.0
        return float(min(found, _MOST_PERSISTENT)) if found >= _LEAST else 0.0

    def effective_rounds(self, workers: Sequence[str]) -> float:
        """Of how many rounds with equal weights the mean with signs has the noise, this call included."""
        return effective_rounds(_TOGETHER, 1.0 + median(np.array([self.rounds.get(worker, 0) for worker in workers])))

    def means_of(self, workers: Sequence[str]) -> Floats:
        """The running means of these workers, (scales, n, size). A worker that is new has deviated by nothing."""
        none = np.zeros((len(self.scales()), self.size), np.float32)
        found = [self.means.get(worker, none) for worker in workers]
        return np.stack(found, axis=1).astype(np.float64)

    def direction(self, sketches: Floats, mass: Floats | None) -> Floats:
        """The guide as a unit vector; in the first round, that of the mean."""
        found = np.average(sketches, axis=0, weights=mass) if self.guide is None else self.guide
        length = float(np.linalg.norm(found))
        return found / length if 0.0 < length < np.inf else np.zeros_like(found)

    def along_of(self, workers: Sequence[str]) -> Floats:
        """How far these workers went along the guide, (time scales, n)."""
        return np.stack([self.along.get(worker, np.zeros(len(_ALONG))) for worker in workers], axis=1)

    def advance(self, workers: Sequence[str], means: Floats, along: Floats, result: Floats) -> None:
        """Keep new running means and the result's sketch; of workers that did not take part, the old ones stay."""
        self.calls += 1
        guide = result if self.guide is None else _GUIDING * self.guide + (1.0 - _GUIDING) * result
        self.guide = np.clip(guide, -_MOST, _MOST)
        along = np.clip(along, -_MOST, _MOST)
        small: Any = np.clip(means, -_MOST, _MOST).astype(np.float32)
        for place, worker in enumerate(workers):
            new = small[:, place].copy()  # of its own, or it would keep those of all others in memory
            before = self.means.pop(worker, None)  # whoever came last stands last
            if before is not None:
                last, now = before[-1].astype(np.float64), new[-1].astype(np.float64)
                found = np.array([last @ now, last @ last])
                known = self.persisting.get(worker, np.zeros(2))
                self.persisting[worker] = _PERSISTENCE * known + (1.0 - _PERSISTENCE) * found
            self.means[worker], self.along[worker] = new, along[:, place].copy()
            self.rounds[worker] = self.rounds.get(worker, 0) + 1
        for worker in list(self.means)[: -max(len(workers), MOST_WORKERS)]:
            self.forget(worker)

    def forget(self, worker: str) -> None:
        """Remove what is known of a worker, if anything is."""
        for kept in (self.means, self.rounds, self.persisting, self.along):
            kept.pop(worker, None)

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
            "persisting": [self.persisting.get(name, np.zeros(2)).tolist() for name in workers],
            "along": [self.along[name].tolist() for name in workers],
            "guide": [] if self.guide is None else self.guide.tolist(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Replace everything by what `state` gave."""
        try:
            key, decays, size = int(state["key"]), tuple(map(float, state["decays"])), int(state["size"])
            workers, rounds = [str(name) for name in state["workers"]], [int(count) for count in state["rounds"]]
            means = np.array(state["means"], np.float32)  # a copy: the caller may change its state
            d = None if state["d"] is None else int(state["d"])
            calls = int(state["calls"])
            persisting = np.array(state["persisting"], np.float64).reshape(-1, 2)
            along = np.array(state["along"], np.float64).reshape(-1, len(_ALONG))
            guide = np.array(state["guide"], np.float64).ravel()
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
        shape = (len(workers), len(self.scales()), size) if workers else (0,)
        fitting = means.shape == shape and len(rounds) == len(persisting) == len(along) == len(workers)
        fitting &= len(guide) in ((0, size) if not workers else (size,))
        if not fitting or not all(np.isfinite(numbers).all() for numbers in (means, persisting, along, guide)):
            refuse("The state of a memory is damaged: its numbers do not fit its workers.")
        self.key, self.d, self.calls = key, d, calls
        self.means, self.rounds = dict(zip(workers, means, strict=True)), dict(zip(workers, rounds, strict=True))
        self.persisting, self.along = (dict(zip(workers, kept, strict=True)) for kept in (persisting, along))
        self.guide = guide if len(guide) else None


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
        self._d, self._unit, self._persistence = 0, 1.0, 0.0
        self._moved = self._middle = self._sketches = self._signs = self.copies = np.zeros(0)
        self._guide = self._along = np.zeros(0)
        self._weights: Floats | None = None

    def views(
        self, sketches: Floats, received: Sequence[int], d: int, mass: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """The views of this round and of all time scales, V x n x n, and that of who moves with whom, n x n."""
        self.history.check_length(d)
        self._d = d
        self._names, self._sketches = [self.workers[row] for row in received], sketches
        # Any common centre gives the same view: it is centred again. The result is not known yet, so the mean is taken.
        self._middle = np.average(sketches, axis=0, weights=mass)
        now = sketches - self._middle
        lengths = (now**2).sum(axis=1)
        usual = median(lengths) if mass is None else median_of(lengths, mass)
        self._unit = float(np.sqrt(usual or lengths.max())) or 1.0
        self._signs, self._persistence = self.history.signs(), self.history.persistence(self._names)
        means = self.history.means_of(self._names)
        known = self._persistence * means[-1]
        means *= self.history.scales()
        self._moved, self._along = means, _SCALES * self.history.along_of(self._names)
        self._guide = self.history.direction(sketches, mass)
        self._add(now, known)
        self.copies = copies(now, mass)
        steady = view_of(np.concatenate([now[None], means[:-2]]), mass)
        return steady, together(means[-2], self.history.effective_rounds(self._names), mass)

    def following(self, f: float, mass: Floats | None = None) -> Floats:
        """After `views`: weights in [0, 1], low for workers that go far more, or less, along the guide than the others.

        In one direction the farthest of a dozen honest workers hold most of the spread, hence the larger level.
        """
        return above_noise(view_of(self._along[..., None], mass), f, mass, slack=_SLACK).weights

    def _add(self, deviations: Floats, known: Floats | float) -> None:
        """Add deviations to the running means, to that with signs what was not `known` of them."""
        last = deviations / self._unit  # so that rounds count alike, however long their updates are
        self._moved[:-2] += (1.0 - self.history.scales()[:-2]) * deviations
        self._moved[-2] += (1.0 - _TOGETHER) * (self._signs * (last - known))
        self._moved[-1] += (1.0 - _LAST) * last
        self._along += (1.0 - _SCALES) * (last @ self._guide)

    def decided(self, weights: Floats) -> None:
        """Note the weights of the result."""
        self._weights = weights

    def commit(self) -> None:
        """Add this round to the history, as deviations from its result."""
        if self._weights is None:
            return
        self.history.d = self._d
        result = self._weights @ self._sketches
        self._add(self._middle - result, 0.0)  # from the mean as the centre to the result
        self.history.advance(self._names, self._moved, self._along, result)
