"""Train on digits with hostile clients, once in the clear and once on secret shares: both end at the same accuracy.

    python examples/private/digits.py path/to/python/with/spu

Needs scikit-learn here, and the extra `private` in the environment of the parties. See docs/engines/private.md.
"""

import sys
from collections.abc import Callable

import numpy as np
from sklearn.datasets import load_digits

import mixtailor as mt
from mixtailor.engines.private import Encoding, LocalParties

CLIENTS, BYZANTINE, ROUNDS, BATCH, RATE = 9, 2, 60, 32, 0.5


def train(aggregate: Callable[[np.ndarray], np.ndarray]) -> float:
    """Accuracy of a softmax regression after some rounds, in percent."""
    images, labels = load_digits(return_X_y=True)
    images, random = np.c_[images / 16.0, np.ones(len(images))], np.random.default_rng(0)
    order = random.permutation(len(images))
    train, test = order[360:], order[:360]
    weights = np.zeros((images.shape[1], 10))
    for _ in range(ROUNDS):
        updates = []
        for _client in range(CLIENTS - BYZANTINE):
            chosen = random.choice(train, BATCH)
            scores = images[chosen] @ weights
            chances = np.exp(scores - scores.max(axis=1, keepdims=True))
            chances /= chances.sum(axis=1, keepdims=True)
            updates.append((images[chosen].T @ (chances - np.eye(10)[labels[chosen]])).ravel() / BATCH)
        updates += [-5 * np.mean(updates, axis=0)] * BYZANTINE
        weights -= RATE * aggregate(np.array(updates)).reshape(weights.shape)
    return 100.0 * float((np.argmax(images[test] @ weights, axis=1) == labels[test]).mean())


def main(python: str) -> None:
    """Print three accuracies."""
    print(f"mean, in the clear: {train(mt.Mean()):.1f} %")
    print(f"Multi-Krum, in the clear: {train(mt.MultiKrum(f=BYZANTINE)):.1f} %")
    with LocalParties(Encoding(radius=20.0, d=650), "multi_krum", f=BYZANTINE, python=python) as parties:
        print(f"Multi-Krum, on secret shares: {train(parties):.1f} %")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [sys.executable])
