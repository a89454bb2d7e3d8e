"""What a certificate holds, and how it is shown."""

from dataclasses import dataclass
from typing import Literal

from mixtailor.theory._json import to_json
from mixtailor.theory.estimates import Interval

__all__ = ["AttackVerdict", "Certificate", "RuleVerdict", "Verdict"]

Verdict = Literal["holds on these states", "broken", "not shown"]


@dataclass(frozen=True)
class RuleVerdict:
    """One rule under one attack.

    Attributes
    ----------
    rule : str
        The rule, as text.
    count : int
        How many equal rules the pool has.
    verdict : str
        By ``E[U] . grad F`` at every state.
    products : tuple of Interval
        ``E[U] . grad F``, one for each state.
    length : float
        The largest ``E|U|`` over states, at least ``|E U|``.
    moments : tuple of float
        ``E|U|^r / E|G|^r`` for r = 2, 3, 4, the largest over states, at the attack's own size.
    swept : tuple of float
        The same, the largest over all sizes of the attack.
    bounded : bool
        Whether the result stops growing with the attack's size.
    """

    rule: str
    count: int
    verdict: Verdict
    products: tuple[Interval, ...]
    length: float
    moments: tuple[float, ...]
    swept: tuple[float, ...]
    bounded: bool


@dataclass(frozen=True)
class AttackVerdict:
    """A mixture under one attack.

    Attributes
    ----------
    attack : str
        The attack, as text.
    verdict : str
        By Definition 1 of the paper: products at every state, and moments.
    products : tuple of Interval
        ``E[U] . grad F`` of the mixture, one for each state.
    holding, broken, unknown : int
        How many rules hold, are broken, and of how many neither is shown.
    beta : float or None
        The least lower end of ``E[U_m] . grad F`` over states and the rules that hold.
    largest : float
        lambda: the largest ``E|U|`` of the other rules.
    margin : float or None
        What the sufficient condition guarantees of ``E[U] . grad F``; None where no rule holds.
    sufficient : bool
        Whether the sufficient condition, M/q > 1 + lambda L / beta for equal probabilities, holds.
    bounded : bool
        Whether all moments stay bounded when the attack grows.
    rules : tuple of RuleVerdict
        Each rule of the pool under this attack.
    """

    attack: str
    verdict: Verdict
    products: tuple[Interval, ...]
    holding: int
    broken: int
    unknown: int
    beta: float | None
    largest: float
    margin: float | None
    sufficient: bool
    bounded: bool
    rules: tuple[RuleVerdict, ...]


@dataclass(frozen=True)
class Certificate:
    """What recorded gradients say about a pool under attacks.

    Attributes
    ----------
    verdict : str
        "holds on these states", "broken" or "not shown", over all attacks.
    attacks : tuple of AttackVerdict
        The verdict under each attack.
    rules, states, resamples, workers, f : int
        How many there were of each; f of the workers are Byzantine.
    lipschitz : float
        L, the largest ``|grad F|`` over the states.
    confidence : float
        Of each interval by itself.
    names : tuple of str
        Of the states.
    """

    verdict: Verdict
    attacks: tuple[AttackVerdict, ...]
    rules: int
    states: int
    resamples: int
    workers: int
    f: int
    lipschitz: float
    confidence: float
    names: tuple[str, ...]

    def to_json(self) -> str:
        """All of it, for machines."""
        return to_json(self)

    def __str__(self) -> str:
        lines = [
            f"{self.verdict}: {self.rules} rules, {self.states} states of {self.resamples} resamples, "
            f"n = {self.workers}, f = {self.f}, L = {self.lipschitz:.4g}, {self.confidence:.0%} intervals",
            f"  {'attack':28}{'least E[U] . grad F':>32}  {'holds/broken/unknown':>20}  {'K2 swept':>9}  verdict",
        ]
        for attack in self.attacks:
            worst = min(attack.products, key=lambda product: product.low)
            numbers = f"{worst.value:.3g} [{worst.low:.3g}, {worst.high:.3g}]"
            counts = f"{attack.holding}/{attack.broken}/{attack.unknown}"
            swept = max(rule.swept[0] for rule in attack.rules)
            known = f"{swept:9.3g}" if attack.bounded else "unbounded"
            lines.append(f"  {attack.attack[:27]:28}{numbers:>32}  {counts:>20}  {known}  {attack.verdict}")
        return "\n".join(lines)

    def table(self) -> str:
        """Every rule under every attack: the least product over the states, and the largest moments."""
        lines = [f"{'attack':24}{'rule':44}{'least E[U] . grad F':>32}{'K2':>10}{'K2 swept':>11}  verdict"]
        for attack in self.attacks:
            for rule in attack.rules:
                worst = min(rule.products, key=lambda product: product.low)
                numbers = f"{worst.value:.3g} [{worst.low:.3g}, {worst.high:.3g}]"
                name = rule.rule if rule.count == 1 else f"{rule.count} x {rule.rule}"
                swept = f"{rule.swept[0]:.3g}" if rule.bounded else "unbounded"
                figures = f"{numbers:>32}{rule.moments[0]:>10.3g}{swept:>11}"
                lines.append(f"{attack.attack[:23]:24}{name[:43]:44}{figures}  {rule.verdict}")
        return "\n".join(lines)
