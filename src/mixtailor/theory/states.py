"""`State`: gradients recorded at one model, for certificates and the game."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_f, refuse
from mixtailor.attacks.base import Scene
from mixtailor.intake import receive
from mixtailor.mixing import MixTailor
from mixtailor.rules import Rule
from mixtailor.theory._needs import Floats
from mixtailor.theory.estimates import Interval
from mixtailor.updates import Combination, Updates

__all__ = ["Round", "State", "check_states", "intervals", "members"]


@dataclass(frozen=True, eq=False)
class State:
    """What was recorded at one model w.

    Parameters
    ----------
    gradients : array of shape (resamples, workers, d)
        Independent resamples of the correct gradients of all n workers. The last f of them are the updates that the
        Byzantine workers would have sent.
    gradient : array of d numbers
        grad F, from a full pass or a large batch **independent of the updates**. Never the updates' own mean: where
        grad F is zero, the mean of the updates has a large positive product with itself, out of nothing.
    name : str
        For tables, the round for instance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> state = State(1.0 + rng.normal(size=(5, 12, 30)), np.ones(30), name="round 0")
    >>> state.resamples, state.workers, state.d, round(state.length, 3)
    (5, 12, 30, 5.477)
    """

    gradients: Any
    gradient: Any
    name: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        rows, truth = _floats("gradients", self.gradients, 3), _floats("gradient", self.gradient, 1)
        if rows.shape[2] != truth.size:
            refuse(f"State needs grad F with the gradients' {rows.shape[2]} coordinates and got {truth.size}.")
        if not float(np.linalg.norm(truth.astype(np.float64))) > 0.0:
            refuse("State needs grad F that is not zero: at a zero gradient there is nothing to descend.")
        object.__setattr__(self, "gradients", rows)
        object.__setattr__(self, "gradient", truth)

    @property
    def resamples(self) -> int:
        """R."""
        return int(self.gradients.shape[0])

    @property
    def workers(self) -> int:
        """n."""
        return int(self.gradients.shape[1])

    @property
    def d(self) -> int:
        """The number of coordinates."""
        return int(self.gradients.shape[2])

    @property
    def length(self) -> float:
        """``|grad F|``."""
        return float(np.linalg.norm(self.gradient.astype(np.float64)))

    def norms(self, honest: int) -> Floats:
        """``|V_i|`` of the first `honest` workers, resamples x workers."""
        found: Floats = np.linalg.norm(self.gradients[:, :honest].astype(np.float64), axis=2)
        return found

    def round(self, resample: int, f: int, rng: np.random.Generator | int | None = None) -> "Round":
        """One resample as an attack and a rule meet it."""
        check_f("State.round", f)
        if not 0 < f < self.workers - f:
            refuse(f"A state of {self.workers} workers needs 0 < f < n/2 Byzantine ones and got f = {f}.")
        rows = np.vstack([self.gradients[resample], self.gradient.astype(self.gradients.dtype)[None]])
        whole = Updates.arrived(receive(rows))
        # In one geometry, so that products with grad F come from n-space.
        whole.distances(2.0)
        n = self.workers
        honest, own = whole.take(np.arange(n - f)), whole.take(np.arange(n - f, n))
        return Round(Scene(honest, f, n, own, None, np.random.default_rng(rng)), whole.row(n), whole)


@dataclass(frozen=True, eq=False)
class Round:
    """The rows of one round as an attack sees them, and grad F as a point beside them."""

    scene: Scene
    gradient: Combination
    whole: Updates

    def fresh(self, rng: np.random.Generator) -> Scene:
        """The same scene with other randomness."""
        return dataclasses.replace(self.scene, random=rng)


def check_states(who: str, states: Iterable[State], *, resamples: int = 1) -> tuple[State, ...]:
    """States with the same workers and coordinates."""
    known = tuple(states)
    if not known:
        refuse(f"{who} needs at least one state and got none.")
    for state in known:
        if not isinstance(state, State):
            raise TypeError(f"{who} needs states as mixtailor.theory.State and got {type(state).__name__}.")
        if state.resamples < resamples:
            refuse(f"{who} needs at least {resamples} resamples at each state and got {state.resamples}.")
    if len({(state.workers, state.d) for state in known}) > 1:
        shapes = sorted({(state.workers, state.d) for state in known})
        refuse(f"{who} needs the same workers and coordinates at every state and got {shapes}.")
    return known


def _floats(name: str, values: ArrayLike, ndim: int) -> Any:
    array = np.asarray(values)
    if array.dtype not in (np.float32, np.float64):
        array = array.astype(np.float64)
    if array.ndim != ndim or 0 in array.shape:
        refuse(f"State needs {name} with {ndim} axes and something along each, and got the shape {array.shape}.")
    if not np.isfinite(array).all():
        refuse(f"State needs {name} as finite numbers.")
    return array


def members(pool: Any, n: int) -> tuple[tuple[Rule, ...], Floats]:
    """The rules of a pool that may be drawn, and their probabilities."""
    mixture = pool if isinstance(pool, MixTailor) else MixTailor([pool] if isinstance(pool, Rule) else pool)
    shares = mixture.shares(n)
    kept = [place for place, share in enumerate(shares) if share > 0.0]
    return tuple(mixture.rules[place] for place in kept), np.array([shares[place] for place in kept])


def intervals(values: Floats, *, confidence: float, draws: int, rng: np.random.Generator) -> list[Interval]:
    """Bootstrap intervals of means over the first axis.

    The deviations of the bootstrap's means are widened by sqrt(R / (R - 1)) and by Student's quantile over the normal
    one: with few resamples they are too short otherwise.
    """
    from scipy.stats import norm, t  # loaded here so that `import mixtailor` does not pay for it

    r = len(values)
    flat = values.reshape(r, -1)
    mean = flat.mean(axis=0)
    if r == 1:
        ends = np.stack([np.full_like(mean, -np.inf), np.full_like(mean, np.inf)])
    else:
        tail = (1.0 - confidence) / 2.0
        weights = rng.multinomial(r, np.full(r, 1.0 / r), size=draws) / r
        wider = math.sqrt(r / (r - 1)) * float(t.ppf(tail, r - 1) / norm.ppf(tail))
        ends = mean + wider * (np.quantile(weights @ flat, [tail, 1.0 - tail], axis=0) - mean)
    return [Interval(float(m), float(low), float(high)) for m, low, high in zip(mean, *ends, strict=True)]
