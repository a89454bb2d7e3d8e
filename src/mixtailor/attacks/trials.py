"""Trying rows on the server's rule, without computing them: what the searching attacks share."""

import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Floats
from mixtailor.attacks.base import Scene
from mixtailor.memory import Keeping
from mixtailor.mixing import MixTailor
from mixtailor.rules import Rule, as_rule
from mixtailor.rules.steps import prefetch
from mixtailor.updates import Call, Combination, Faulty, Point, Updates

__all__ = ["Outcome", "Trials", "check_target"]


@dataclass(frozen=True)
class Outcome:
    """How a rule's result stands to the reference."""

    inner: float  # the inner product of the two: below zero, the step ascends
    length: float  # of the result
    reference: float  # the length of the reference

    @property
    def cosine(self) -> float:
        """The cosine of the angle between them; 0 where one of them is zero."""
        size = self.length * self.reference
        return max(-1.0, min(1.0, self.inner / size)) if size > 0.0 else 0.0

    @property
    def angle(self) -> float:
        """The angle between them, 0 to pi."""
        return math.acos(self.cosine)

    @property
    def payoff(self) -> float:
        """``<U, g> / (|g| max(|U|, |g|))``, in [-1, 1]: a long result does not win by its length."""
        size = self.reference * max(self.length, self.reference)
        return max(-1.0, min(1.0, self.inner / size)) if size > 0.0 else 0.0

    @property
    def distance(self) -> float:
        """How far the result is from the reference."""
        return math.sqrt(max(self.length**2 + self.reference**2 - 2.0 * self.inner, 0.0))


def check_target(attack: object, target: Rule | None, n: int) -> Rule:
    """A target that n rows allow."""
    if target is None:
        refuse(f"{attack!r} needs target=, the rule or MixTailor that the server uses.")
    target.check_rows(n)
    return target


class Trials:
    """Candidate updates tried on the rules of a target. One is made each round.

    Distances between honest updates are computed once and shared by all candidates; those to the candidates come from
    n-space where p = 2 and the candidates are combinations of known updates, from one pass for all norms otherwise.
    Candidates are kept while they are tried, since rules that iterate read them several times.
    Equal rules of a pool are computed once, and every evaluation of a rule is counted. A rule that uses randomness gets
    the same for all candidates, drawn by the attacker: the server's is not known.

    Parameters
    ----------
    target : Rule
        A rule, a MixTailor, or a rule with a memory, whose content the attacker knows.
    scene : Scene
        What the attacker sees in this round.
    reference : Point, optional
        What results are compared with; the mean of the honest updates by default.

    Attributes
    ----------
    rules : tuple of Rule
        The rules that n updates allow.
    shares : tuple of float
        Their probabilities.
    evaluations : int
        How many times a rule was evaluated.

    Examples
    --------
    >>> from mixtailor.attacks.base import Scene
    >>> from mixtailor.rules import Comed
    >>> from mixtailor.intake import receive
    >>> from mixtailor.updates import Updates
    >>> honest = Updates.arrived(receive(np.array([[1.0, 2.0], [3.0, 2.0], [2.0, 2.0]])))
    >>> trials = Trials(Comed(), Scene(honest, 1, 4, None, None, np.random.default_rng(0)))
    >>> outcome = trials.outcome([honest.combine([-1.0, -1.0, -1.0])])
    >>> outcome.inner, trials.evaluations
    (7.0, 1)
    """

    def __init__(self, target: Rule, scene: Scene, reference: Point | None = None) -> None:
        self.target, self.scene, self.honest = as_rule(target), scene, scene.honest
        self.target.check_rows(scene.n)
        self.rules: tuple[Rule, ...]
        if isinstance(self.target, Keeping):
            if scene.workers is not None:
                self.target.expect(scene.workers)  # the attacker knows what is remembered of whom
            self.rules, self.shares = self.target.members(scene.n)
        elif isinstance(self.target, MixTailor):
            drawn = zip(self.target.rules, self.target.shares(scene.n), strict=True)
            self.rules, self.shares = zip(*((rule, share) for rule, share in drawn if share > 0.0), strict=True)
        else:
            self.rules, self.shares = (self.target,), (1.0,)
        self.reference = self.honest.mean() if reference is None else reference
        self.evaluations = 0
        self._random = np.random.default_rng(scene.random.integers(1 << 63))
        self._state = self._random.bit_generator.state
        self._view: tuple[tuple[int, ...], Updates] | None = None

    def drawn(self) -> Rule:
        """A rule that the attacker draws itself, as the server would."""
        return self.rules[int(self.scene.random.choice(len(self.rules), p=np.array(self.shares)))]

    def unattacked(self, rule: Rule | None = None) -> Point:
        """The rule's result without an attack: on own and honest updates together, or on the honest updates."""
        everyone = self.scene.everyone()
        view = everyone.take(np.arange(everyone.n), shared=True)
        view.call = self._call()
        return self._decide(view, rule or self.rules[0])

    def result(self, points: Sequence[Point], rule: Rule | None = None) -> Point:
        """The rule's result when the points join the honest updates."""
        return self._decide(self._beside(points), rule or self.rules[0])

    def outcome(self, points: Sequence[Point], rule: Rule | None = None) -> Outcome:
        """How the rule's result stands to the reference."""
        return self.compare(self.result(points, rule))

    def outcomes(self, points: Sequence[Point]) -> list[Outcome]:
        """The outcome of each rule of the target, in the order of `rules`."""
        view = self._beside(points)
        known: dict[Rule, Outcome] = view.remember((Trials, "outcomes"), dict)
        missing = [rule for rule in dict.fromkeys(self.rules) if rule not in known]
        if missing:
            with _quietly():
                prefetch(missing, view)
            results = [self._decide(view, rule) for rule in missing]
            known.update(zip(missing, self._compared(results), strict=True))
        return [known[rule] for rule in self.rules]

    def compare(self, result: Point) -> Outcome:
        """How any result stands to the reference."""
        return self._compared([result])[0]

    def _compared(self, results: Sequence[Point]) -> list[Outcome]:
        """Results against the reference: those of one geometry together, since that is a matter of n numbers."""
        reference = self.reference
        if self._view is not None and isinstance(reference, Combination) and reference.updates is self.honest:
            # The honest updates come first in the view, where results and reference share one geometry.
            view = self._view[1]
            reference = view.combine(np.append(reference.weights, np.zeros(view.n - self.honest.n)))
        basis = reference.updates.basis if isinstance(reference, Combination) else None
        inside = [found for found in results if isinstance(found, Combination) and found.updates.basis is basis]
        outcomes: dict[Point, Outcome] = {}
        groups: list[Sequence[Point]] = [inside, *([result] for result in results if result not in inside)]
        for group in groups:
            if group:
                inner = group[0].updates.inner(reference, *group)
                outcomes.update((result, _outcome(inner, row)) for row, result in enumerate(group, start=1))
        return [outcomes[result] for result in results]

    def _beside(self, points: Sequence[Point]) -> Updates:
        key = tuple(id(point) for point in points)
        if self._view is None or self._view[0] != key:
            view = self.honest.beside(*points, rounded=True, held=True)
            view.call = self._call()
            self._view = (key, view)
        return self._view[1]

    def _call(self) -> Call:
        return Call(self._random, reference=self.honest.call.reference, honest=self.honest.places())

    def _decide(self, view: Updates, rule: Rule) -> Point:
        self.evaluations += 1
        self._random.bit_generator.state = self._state
        try:
            with _quietly():
                return rule.decide(view)
        except Faulty:
            raise
        except Exception as error:
            raise RuntimeError(
                f"{rule!r} of the target raised {type(error).__name__} when the attack tried it on {view.n} rows: "
                f"{error} Fix the rule, or leave it out of the target."
            ) from error


@contextmanager
def _quietly() -> Iterator[None]:
    """An iteration that stops early is the server's to report, not a trial's."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _outcome(inner: Floats, row: int) -> Outcome:
    """From inner products, of which the first are those of the reference."""
    length, reference = (math.sqrt(max(float(inner[place, place]), 0.0)) for place in (row, 0))
    return Outcome(float(inner[row, 0]), length, reference)
