"""The best response over rounds: a plan against a server that may remember."""

import copy
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count, check_fraction
from mixtailor._types import Floats
from mixtailor.attacks._evolution import Record, evolve
from mixtailor.attacks._formulas import flat, length
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.drift import against_signs, length_ratio, row_weights, running_mean
from mixtailor.attacks.memory import Memory
from mixtailor.mixing import MixTailor, SeededEntropy
from mixtailor.rules import Rule
from mixtailor.updates import Point, Updates

__all__ = ["ExpectedDrift"]

# Against the signs of the running mean, against the running mean, and the share of an honest worker's deviation.
_STARTS = ((1.0, 0.0, 0.0), (0.5, 0.0, 0.0), (0.0, 1.0, 0.0), (0.5, 0.0, 1.0), (1.5, 0.0, 1.0), (0.0, 0.3, 1.0))
_STEP = 0.3


@dataclass(frozen=True)
class ExpectedDrift(Attack):
    r"""Updates that move the server's results as far as possible against training, over the next rounds together.

    .. math:: \min_\theta \; \mathbb E \sum_{t=1}^{H} \frac{\langle U_t - \mu, r \rangle}{\rho \lVert r \rVert},
        \qquad b_j = \mu - \theta_1 \, \sigma \circ \mathrm{sign}(r) - \theta_2 \, \rho \frac{r}{\lVert r \rVert}
        + \theta_3 \, (x_{\pi(j)} - \mu)

    Every H rounds the attacker copies the server with its memory, simulates H future rounds on the copy, and keeps the
    best :math:`\theta` that a search finds. r is the running honest mean, fixed while the attacker plans, and
    :math:`\rho` the honest updates' distance to their mean. The updates are those of `Drift`, with its z, its `along`
    and its `disguise`.

    Parameters
    ----------
    target : Rule or server
        The rule or the MixTailor of the server, or an object with a memory: anything with the ``aggregate`` of rules.
        It is copied, never changed. The attacker does not know the server's draws and uses its own.
    horizon : int
        H: how many rounds a plan is for. With 1, it plans a single round, as `BestResponse` does.
    budget : int
        How many plans to try, starts included; each takes `horizon` evaluations of the target.
    decay : float
        Of the running mean, between 0 and 1.

    Examples
    --------
    >>> from mixtailor import TrimmedMean
    >>> honest = 1.0 + np.random.default_rng(0).normal(size=(10, 50))
    >>> facts = ExpectedDrift(TrimmedMean(f=2), horizon=4, budget=12).craft(honest, f=2, rng=0).facts
    >>> facts["value"] <= facts["start_value"] < 0.0
    True

    Notes
    -----
    The simulated rounds have the honest updates of this round, with their deviations from the mean in another order and
    with random signs: as large as they are, and independent over rounds. In each of them the attacker knows the mean,
    as it will then. `craft` reports the plan, its value, the best
    start's value and the number of evaluations of the target. Workers' names are passed to the target where the caller
    gives them. The first simulated round has the reference that the server's rule has in this round. Each later one has
    the result before it, unless the rule trusts an update that the server computes itself.
    """

    target: Any
    horizon: int = field(default=10, kw_only=True)
    budget: int = field(default=24, kw_only=True)
    decay: float = field(default=0.9, kw_only=True)

    needs: ClassVar[str] = "the honest updates, the server's rules and its memory"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not callable(getattr(self.target, "aggregate", None)):
            raise TypeError(
                f"ExpectedDrift needs target= as a rule or a server with aggregate, and got {self.target!r}."
            )
        check_count("ExpectedDrift", "horizon", self.horizon)
        check_count("ExpectedDrift", "budget", self.budget)
        check_fraction("ExpectedDrift", "decay", self.decay)

    def begin(self) -> Any:
        return Memory()

    def least_rows(self) -> int:
        needed = getattr(self.target, "min_rows", None)
        return 0 if needed is None else int(needed())

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        running = running_mean(honest, memory, self.decay)
        pushes = against_signs(honest, running)
        # These lengths read all honest updates: a faulty one is named before any trial.
        reach = length_ratio(length(pushes), length(running))
        if memory.round % self.horizon == 0:
            last: Point = honest.mean() if memory.previous is None else honest.given(scene.flat(memory.previous))
            last = honest.reference or last
            future = _Future(scene, self.horizon, *(_plain(honest, point) for point in (pushes, running, last)))
            memory.notes["plan"], memory.notes["facts"] = self._plan(scene, future, memory.notes.get("plan"))
        memory.round += 1
        frame = honest.beside(pushes, running)
        weights = row_weights(np.asarray(memory.notes["plan"]), honest.n, reach)
        copied = scene.random.permutation(honest.n)[: scene.f]
        facts = memory.notes["facts"]
        return [frame.combine(weights(int(row)), **facts) for row in copied]

    def _plan(
        self, scene: Scene, future: "_Future", last: Sequence[float] | None
    ) -> tuple[list[float], dict[str, Any]]:
        record = Record()

        def value(theta: Floats) -> float:
            return record.note(theta, future.value(self._twin(), theta))

        starts = [*([tuple(last)] if last is not None else []), *_STARTS][: self.budget]
        for start in starts:
            value(np.array(start))
        start_value, left = record.value, self.budget - len(starts)
        assert record.best is not None
        if left > 1:
            evolve(value, record.best, step=_STEP, budget=left, rng=scene.random)
        plan = [float(number) for number in record.best]
        facts = {
            "plan": tuple(plan),
            "value": record.value,
            "start_value": start_value,
            "evaluations": record.tried * self.horizon,
        }
        return plan, facts

    def _twin(self) -> Any:
        """The server as it is now, without its randomness and its log."""
        if isinstance(self.target, MixTailor):
            return MixTailor(self.target.rules, self.target.probabilities)
        return copy.deepcopy(self.target)


class _Future:
    """Rounds that may come, the same for all plans, and what a plan does in them."""

    def __init__(self, scene: Scene, horizon: int, pushes: Floats, running: Floats, last: Floats) -> None:
        honest, random = scene.honest, scene.random
        self.rows = np.stack([_plain(honest, honest.row(i)) for i in range(honest.n)])
        self.mean = self.rows.mean(axis=0)
        self.pushes, self.running, self.last, self.workers = pushes, running, last, scene.workers
        self.size = float(np.linalg.norm(running)) * float(np.linalg.norm(pushes))
        self.reach = length_ratio(float(np.linalg.norm(pushes)), float(np.linalg.norm(running)))
        self.orders = [random.permutation(honest.n) for _ in range(horizon)]
        self.signs = [random.choice((-1.0, 1.0), honest.n) for _ in range(horizon)]
        self.copied = [random.permutation(honest.n)[: scene.f] for _ in range(horizon)]
        self.seed = int(random.integers(1 << 63))

    def value(self, server: Any, theta: Floats) -> float:
        """The drift along the running mean over all rounds, in units of the honest updates' distance to their mean."""
        drift, reference, entropy = 0.0, self.last, SeededEntropy(self.seed)
        # What the server computes itself does not become its last result.
        trusted = isinstance(server, Rule) and server.asks().reference == "trusted"
        deviations = self.rows - self.mean
        weights = row_weights(theta, len(self.rows), self.reach)
        for order, signs, copied in zip(self.orders, self.signs, self.copied, strict=True):
            honest = self.mean + signs[:, None] * deviations[order]
            # As in a round, the attacker starts from the mean of these updates, and not from what it expects.
            mine = np.stack([weights(int(row)) for row in copied]) @ np.vstack([honest, self.pushes, self.running])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what a rule warns of is the server's to report
                result = server.aggregate(
                    np.vstack([honest, mine]),
                    workers=self.workers,
                    reference=reference,
                    entropy=entropy,
                    on_fault="skip",
                )
            if result.update is not None:
                update = np.asarray(result.update)
                reference = reference if trusted else update
                drift += float((update - honest.mean(axis=0)) @ self.running)
        return drift / self.size if self.size > 0.0 else 0.0


def _plain(honest: Updates, point: Point) -> Floats:
    """A point as a numpy vector."""
    vector = flat(honest, point)
    return np.asarray(vector.cpu() if hasattr(vector, "cpu") else vector, np.float64)
