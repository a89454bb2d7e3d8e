r"""Gradients of all workers for plain perceptrons: the layerwise pass written out, without autograd.

On a network as small as 784-100-10, autograd's bookkeeping takes about a seventh of the time. Here the backward pass is
a loop over the layers; each operation is the one that autograd would call, so that the bits are the same. On examples
without their zeros the first layer is computed by a kernel of our own, and where there is one hidden layer so is
everything up to the gradient of the first weight: results differ by rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from mixtailor.simulation.layerwise import flat_layers
from mixtailor.simulation.sparse import SparseBatch

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["cross_entropy_gradients", "is_perceptron"]

MOST_UNITS = 1 << 16  # of a hidden layer in our kernels, which count units in 16 bits


def is_perceptron(model: nn.Module) -> bool:
    """Whether a sequence, for which `layerwise.is_sequence` holds, consists of full layers and ReLUs on flat examples.

    Examples
    --------
    >>> is_perceptron(nn.Sequential(nn.Flatten(), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)))
    True
    >>> is_perceptron(nn.Sequential(nn.Linear(4, 3), nn.Dropout()))
    False
    """
    if type(model) is not nn.Sequential:
        return False
    layers = [layer for _, layer in flat_layers(model)]
    first = layers[0] if layers else None
    return (
        type(first) is nn.Flatten
        and first.end_dim == -1
        and all(type(layer) in (nn.Linear, nn.ReLU) for layer in layers[1:])
    )


def cross_entropy_gradients(
    model: nn.Sequential,
    weights: Mapping[str, torch.Tensor],
    rows: Mapping[str, torch.Tensor],
    inputs: torch.Tensor | SparseBatch,
    labels: torch.Tensor,
) -> torch.Tensor:
    """Write each worker's gradient of its mean cross-entropy to `rows`, and return the losses ``(n,)``.

    Parameters
    ----------
    model : torch.nn.Sequential
        For which `is_perceptron` holds.
    weights : mapping
        By parameter name: one value for all workers.
    rows : mapping
        By parameter name: where the gradients go, with a first dimension of n.
    inputs : torch.Tensor or SparseBatch
        ``(n, batch, ...)``, or the same examples without their zeros; then the first layer is a full one.
    labels : torch.Tensor
        ``(n, batch)``.
    """
    n, batch = labels.shape
    layers = flat_layers(model)[1:]
    if isinstance(inputs, SparseBatch) and _has_one_hidden_layer([layer for _, layer in layers]):
        names = [f"{name}.{kind}" for name, _ in layers[::2] for kind in ("weight", "bias")]
        return inputs.one_hidden_layer([weights[name] for name in names], [rows[name] for name in names], labels)
    entered: list[Any] = []
    values: Any = inputs if isinstance(inputs, SparseBatch) else inputs.reshape(n * batch, -1)
    for name, layer in layers:
        if isinstance(layer, nn.Linear):
            entered.append(values)
            weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
            if isinstance(values, SparseBatch):
                values = values.linear(weight, bias)
            else:
                values = nn.functional.linear(values, weight, bias)
        else:
            values = values.relu()
            entered.append(values)  # a ReLU's output shows what its backward pass keeps
    logs, where = values.log_softmax(1), labels.reshape(-1, 1)
    losses: torch.Tensor = logs.gather(1, where).neg_().view(n, batch).mean(1)
    slopes = torch.zeros_like(logs).scatter_(1, where, -1.0 / batch)
    slopes = torch.ops.aten._log_softmax_backward_data(slopes, logs, 1, logs.dtype)
    for (name, layer), value in zip(reversed(layers), reversed(entered), strict=True):
        if not isinstance(layer, nn.Linear):
            slopes = torch.ops.aten.threshold_backward(slopes, value, 0)
            continue
        own = slopes.view(n, batch, -1)
        examples = value.dense() if isinstance(value, SparseBatch) else value.view(n, batch, -1)
        torch.bmm(own.transpose(1, 2), examples, out=rows[f"{name}.weight"])
        if layer.bias is not None:
            torch.sum(own, 1, out=rows[f"{name}.bias"])
        if value is not entered[0]:
            slopes = slopes @ weights[f"{name}.weight"]
    return losses


def _has_one_hidden_layer(layers: Sequence[nn.Module]) -> bool:
    return (
        [type(layer) for layer in layers] == [nn.Linear, nn.ReLU, nn.Linear]
        and all(layer.bias is not None for layer in layers[::2])
        and len(layers[0].weight) <= MOST_UNITS  # type: ignore[arg-type]  # a tensor
    )
