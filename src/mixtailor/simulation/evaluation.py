"""How good a model is on the test examples."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.func import functional_call

from mixtailor.simulation.flat import Layout

if TYPE_CHECKING:
    from mixtailor.simulation.data import Dataset

__all__ = ["Evaluation"]


class Evaluation:
    """Accuracy and mean cross-entropy on the test examples, with dropout off.

    Parameters
    ----------
    model : torch.nn.Module
        The network. It is copied; its weights come with each call.
    data : Dataset
        Whose test examples are used.
    batch : int
        Examples at a time.

    Examples
    --------
    >>> from mixtailor.simulation import logistic, synthetic
    >>> model = logistic((20,), 10)
    >>> accuracy, loss = Evaluation(model, synthetic())(torch.zeros(210))
    >>> round(loss, 4)
    2.3026
    """

    def __init__(self, model: nn.Module, data: Dataset, *, batch: int = 1_000) -> None:
        self.layout = Layout.of(model)
        self.data = data
        self.batch = batch
        self._model = copy.deepcopy(model).eval()

    def __call__(self, weights: torch.Tensor) -> tuple[float, float]:
        """``(accuracy, loss)`` of the weights ``(d,)``; accuracy is 0 to 1."""
        right, loss = 0, 0.0
        views = self.layout.views(weights)
        with torch.no_grad():
            for start in range(0, len(self.data.test_labels), self.batch):
                inputs, labels = self.data.test(range(start, min(start + self.batch, len(self.data.test_labels))))
                outputs = functional_call(self._model, views, (inputs,))
                right += int((outputs.argmax(1) == labels).sum())
                loss += float(nn.functional.cross_entropy(outputs, labels, reduction="sum"))
        return right / len(self.data.test_labels), loss / len(self.data.test_labels)
