"""What is between the first layer of a small perceptron and the gradient of its weights, for all workers at once.

With 100 hidden units and 10 classes these layers are a percent of the arithmetic, and as a dozen operations of torch
they took as long as the first layer does.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.kernels._numba import special_kernel
from mixtailor.kernels.sparse import SINGLES, Single, sum_runs

__all__ = ["between_layers"]


def between_layers(
    hidden: Single,
    labels: NDArray[np.int64],
    weight: Single,
    bias: Single,
    slopes: Single,
    gradients: tuple[Single, Single, Single],
    losses: Single,
) -> None:
    """ReLU, second layer and mean cross-entropy of each worker, forward and backward.

    Parameters
    ----------
    hidden : array
        ``(n * count, pitch)``, what the first layer gave, with zeros behind the units; its ReLU is written over it.
    labels : array
        ``(n, count)``.
    weight, bias : array
        ``(classes, units)`` and ``(classes,)``, of the second layer.
    slopes : array
        ``(n, count, pitch)``; becomes the gradient of each worker's loss in what the first layer gave.
    gradients : tuple of array
        Where the gradients of the first bias ``(n, units)``, of the second weight ``(n, classes, units)`` and of the
        second bias ``(n, classes)`` go.
    losses : array
        ``(n,)``, the mean of each worker.
    """
    classes, units = weight.shape
    every = np.arange(units, dtype=np.uint16)
    call = _between(-(-classes // SINGLES))
    call(hidden, labels, every, weight, bias, slopes, *gradients, losses)


@functools.cache
def _between(registers: int) -> Any:
    @special_kernel(registers)
    def between(
        hidden: Any, labels: Any, every: Any, weight: Any, bias: Any, slopes: Any,
        below: Any, second: Any, above: Any, losses: Any,
    ) -> None:  # fmt: skip
        workers, count, pitch = slopes.shape
        classes, units = weight.shape
        turned = np.zeros((units, registers * SINGLES), np.float32)
        padded = np.zeros((classes, pitch), np.float32)
        start = np.zeros(registers * SINGLES, np.float32)
        for c in range(classes):
            start[c] = bias[c]
            for unit in range(units):
                turned[unit, c] = padded[c, unit] = weight[c, unit]
        outputs = np.empty(registers * SINGLES, np.float32)
        sums, under = np.empty((classes, pitch), np.float32), np.empty(pitch, np.float32)
        zero, each = np.float32(0.0), np.float32(1.0) / np.float32(count)
        for i in range(workers):
            for unit in range(pitch):
                under[unit] = zero
                for c in range(classes):
                    sums[c, unit] = zero
            for c in range(classes):
                above[i, c] = zero
            loss = zero
            for k in range(count):
                own, slope, label = hidden[i * count + k], slopes[i, k], labels[i, k]
                for unit in range(pitch):
                    own[unit] = zero if own[unit] < zero else own[unit]  # NaN stays, as in torch
                    slope[unit] = zero
                sum_runs(every, own, 0, units, turned, start, outputs, registers)
                top = outputs[0]
                for c in range(1, classes):
                    top = max(top, outputs[c])
                right, total = outputs[label] - top, zero
                for c in range(classes):
                    outputs[c] = math.exp(outputs[c] - top)
                    total += outputs[c]
                loss += np.float32(math.log(total)) - right
                for c in range(classes):
                    share = outputs[c] / total
                    if c == label:
                        share -= np.float32(1.0)
                    share *= each
                    above[i, c] += share
                    for unit in range(pitch):
                        sums[c, unit] += share * own[unit]
                        slope[unit] += share * padded[c, unit]
                for unit in range(pitch):
                    slope[unit] = zero if own[unit] <= zero else slope[unit]
                    under[unit] += slope[unit]
            losses[i] = loss * each
            for unit in range(units):
                below[i, unit] = under[unit]
                for c in range(classes):
                    second[i, c, unit] = sums[c, unit]

    return between
