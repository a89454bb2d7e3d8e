"""The model and its data: a small network in numpy on the digits that come with scikit-learn."""

from functools import cache

import numpy as np
from sklearn.datasets import load_digits

HELD_BACK = 297
HIDDEN = 32
FEWEST = 30  # images of a client; a thousand clients share images


def model():
    """A network before training, the same on every machine."""
    rng = np.random.default_rng(1)
    return {
        "hidden.weight": (rng.standard_normal((64, HIDDEN)) / 8).astype(np.float32),
        "hidden.bias": np.zeros(HIDDEN, np.float32),
        "output.weight": (rng.standard_normal((HIDDEN, 10)) / 6).astype(np.float32),
        "output.bias": np.zeros(10, np.float32),
        "steps": np.zeros((), np.int64),
    }


def data(part=None, parts=1):
    """One client's share of the digits; those held back for the server without `part`."""
    images, labels = digits()
    order = np.random.default_rng(2).permutation(len(labels))
    own = order[:HELD_BACK] if part is None else order[HELD_BACK:][part::parts]
    if len(own) < FEWEST:
        own = np.random.default_rng([3, part]).choice(order[HELD_BACK:], FEWEST, replace=False)
    return images[own], labels[own]


@cache
def digits():
    """All images and labels; reading them takes longer than a client's training."""
    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels


def forward(weights, images):
    hidden = np.maximum(images @ weights["hidden.weight"] + weights["hidden.bias"], 0)
    scores = hidden @ weights["output.weight"] + weights["output.bias"]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    return hidden, odds / odds.sum(axis=1, keepdims=True)


def train(weights, images, labels, *, steps, learning_rate):
    """The weights after some steps, and the loss of the last."""
    weights = {name: values.copy() for name, values in weights.items()}
    for _ in range(steps):
        hidden, odds = forward(weights, images)
        loss = float(-np.log(odds[np.arange(len(labels)), labels] + 1e-9).mean())
        wrong = odds.copy()
        wrong[np.arange(len(labels)), labels] -= 1
        wrong /= len(labels)
        back = wrong @ weights["output.weight"].T * (hidden > 0)
        weights["output.weight"] -= learning_rate * (hidden.T @ wrong)
        weights["output.bias"] -= learning_rate * wrong.sum(axis=0)
        weights["hidden.weight"] -= learning_rate * (images.T @ back)
        weights["hidden.bias"] -= learning_rate * back.sum(axis=0)
        weights["steps"] += 1
    return weights, loss


def accuracy(weights, images, labels):
    return float((forward(weights, images)[1].argmax(axis=1) == labels).mean())
