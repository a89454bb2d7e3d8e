"""Rules against attacks on the gradients of a real problem: what is left of the descent."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixtailor._checks import MissingPackageError
from mixtailor.attacks import Attack
from mixtailor.rules import Rule
from mixtailor.updates.engine import Floats

__all__ = ["Confrontation", "confront", "digit_gradients"]


@dataclass(frozen=True)
class Confrontation:
    r"""What each rule made of each attack.

    Attributes
    ----------
    kept : dict
        ``kept[rule][attack]``, the mean over rounds of :math:`\langle U, \bar g \rangle / \lVert \bar g \rVert^2`,
        with U the answer and :math:`\bar g` the mean of the honest gradients: 1 is the full step, below 0 it goes
        uphill.
    rounds : int
    """

    kept: dict[str, dict[str, float]]
    rounds: int

    def worst(self, rule: str) -> float:
        """The least over the attacks."""
        return min(self.kept[rule].values())


def digit_gradients(workers: int, rounds: int, *, seed: int, batch: int = 32) -> Iterator[Floats]:
    """Gradients of honest workers on handwritten digits, softmax regression, round after round as it is trained.

    Between rounds the weights take a step along the honest mean, so that all rules are asked the same questions.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingPackageError("The demo", "scikit-learn", "train") from error
    images, labels = load_digits(return_X_y=True)
    inputs = np.hstack([images / 16.0, np.ones((len(images), 1))])
    targets = np.eye(10)[labels]
    random = np.random.default_rng(seed)
    weights = np.zeros((inputs.shape[1], 10))
    for _ in range(rounds):
        gradients = []
        for _ in range(workers):
            chosen = random.integers(len(inputs), size=batch)
            scores = inputs[chosen] @ weights
            shares = np.exp(scores - scores.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
            gradients.append((inputs[chosen].T @ (shares - targets[chosen]) / batch).ravel())
        rows = np.stack(gradients)
        yield rows
        weights -= 0.5 * rows.mean(axis=0).reshape(weights.shape)


def confront(
    rules: Mapping[str, Rule], attacks: Mapping[str, Attack], *, n: int, f: int, rounds: int, seed: int
) -> Confrontation:
    """Ask every rule about every attack, on the same gradients."""
    found: dict[str, dict[str, list[float]]] = {rule: {attack: [] for attack in attacks} for rule in rules}
    memories: dict[str, Any] = {name: attack.begin() for name, attack in attacks.items()}
    for number, honest in enumerate(digit_gradients(n - f, rounds, seed=seed)):
        mean = honest.mean(axis=0)
        for name, attack in attacks.items():
            liars = attack(honest, f, state=memories[name], rng=seed + number)
            rows = np.concatenate([honest, liars])
            for title, rule in rules.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # an early stop, or a smaller pool, is a fair answer here
                    answer = rule(rows, honest=range(n - f))
                found[title][name].append(float(answer @ mean / (mean @ mean)))
    kept = {rule: {attack: float(np.mean(values)) for attack, values in row.items()} for rule, row in found.items()}
    return Confrontation(kept, rounds)
