r"""Gradients of all workers from one forward and one backward pass, for plain sequences of layers.

A worker's gradient of a full layer is the sum over *its* examples of the outer products of what left the layer's
backward pass and what entered its forward pass. Everything else in a pass over the whole round is shared, so the round
is run as one batch, and only where a layer's weight gradient would be summed over all examples it is summed for each
worker:

.. math:: G_i = \sum_{e \in B_i} \delta_e x_e^\top

Convolutions likewise, by torch's own kernel on each worker's examples. This holds where every layer treats examples
apart, which is why only layers known to do so are accepted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from torch.autograd.function import once_differentiable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["flat_layers", "forward", "has_hooks", "is_sequence"]

# Layers without parameters that treat examples apart, whatever their settings.
APART = (
    nn.Identity, nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Mish, nn.Tanh, nn.Sigmoid,
    nn.Softplus, nn.Hardtanh, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d,
)  # fmt: skip
# The dimensions, that of the examples included, below which a layer takes its input for a single example.
DIMENSIONS: dict[type[nn.Module], int] = {
    nn.Linear: 2, nn.Dropout1d: 3, nn.Conv2d: 4, nn.Dropout2d: 4, nn.MaxPool2d: 4, nn.AvgPool2d: 4,
    nn.AdaptiveAvgPool2d: 4,
}  # fmt: skip


def is_sequence(model: nn.Module) -> bool:
    """Whether a model is a (nested) `torch.nn.Sequential` of layers that treat examples apart, without hooks.

    Exact types only, since a subclass may do anything; a parameter that appears twice is left to the general way.

    Examples
    --------
    >>> is_sequence(nn.Sequential(nn.Flatten(), nn.Linear(4, 2)))
    True
    >>> is_sequence(nn.Sequential(nn.Linear(4, 2), nn.Softmax(0)))
    False
    """
    if type(model) is not nn.Sequential:
        return False
    layers = [layer for _, layer in flat_layers(model)]
    parameters = [value for layer in layers for value in layer.parameters()]
    return (
        all(_is_known(layer) for layer in layers)
        and not any(has_hooks(module) for module in model.modules())
        and len({id(value) for value in parameters}) == len(parameters)
        and all(value.requires_grad and not value.is_complex() for value in parameters)
    )


def forward(
    model: nn.Sequential,
    weights: Mapping[str, torch.Tensor],
    rows: Mapping[str, torch.Tensor],
    inputs: torch.Tensor,
) -> torch.Tensor:
    """The outputs for ``(n, batch, ...)`` inputs; their backward pass writes each worker's gradient to `rows`.

    Parameters
    ----------
    model : torch.nn.Sequential
        For which `is_sequence` holds.
    weights : mapping
        By parameter name: one value for all workers, or a first dimension of n with one for each.
    rows : mapping
        By parameter name: where the gradients go, always with a first dimension of n.
    inputs : torch.Tensor
        One batch for each of the n workers.

    Returns
    -------
    torch.Tensor
        ``(n, batch, ...)``.
    """
    n, batch = inputs.shape[:2]
    values = inputs.flatten(0, 1)
    for name, layer in flat_layers(model):
        if values.ndim < DIMENSIONS.get(type(layer), 1):
            # torch would take the examples for channels and mix them.
            raise ValueError(
                f"The {type(layer).__name__} at {name!r} needs {DIMENSIONS[type(layer)] - 1} dimensions per example "
                f"and got examples of shape {tuple(values.shape[1:])}. Add one, with unsqueeze for instance."
            )
        if isinstance(layer, nn.Linear | nn.Conv2d):
            weight = weights[f"{name}.weight"].detach().requires_grad_()
            bias = None if layer.bias is None else weights[f"{name}.bias"].detach()
            into = rows[f"{name}.weight"], rows.get(f"{name}.bias")
            if isinstance(layer, nn.Linear):
                values = _full(values, weight, bias, n, *into)
            else:
                settings = _settings(layer)
                values = _Convolution.apply(values, weight, bias, n, *into, settings)  # type: ignore[no-untyped-call]  # torch's
        else:
            values = layer(values)
    return values.reshape(n, batch, *values.shape[1:])


def has_hooks(module: nn.Module) -> bool:
    """Whether something else than the module's own code runs with it."""
    kinds = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
    return any(kinds)


def _is_known(layer: nn.Module) -> bool:
    if type(layer) is nn.Flatten:
        return layer.start_dim == 1
    if type(layer) is nn.Conv2d:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    if type(layer) is nn.MaxPool2d:
        return not layer.return_indices
    return type(layer) is nn.Linear or type(layer) in APART


def flat_layers(model: nn.Sequential, prefix: str = "") -> list[tuple[str, nn.Module]]:
    """The layers of a (nested) sequence with the names that their parameters start with."""
    found: list[tuple[str, nn.Module]] = []
    # Not named_children, which leaves out the second place of a layer that has two.
    for name, layer in model._modules.items():
        assert layer is not None
        nested = type(layer) is nn.Sequential
        found += (
            flat_layers(cast("nn.Sequential", layer), f"{prefix}{name}.") if nested else [(f"{prefix}{name}", layer)]
        )
    return found


def _settings(layer: nn.Conv2d) -> tuple[list[int], list[int], list[int], int]:
    return list(layer.stride), list(cast("tuple[int, ...]", layer.padding)), list(layer.dilation), layer.groups


def _full(
    values: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    n: int,
    weight_rows: torch.Tensor,
    bias_rows: torch.Tensor | None,
) -> torch.Tensor:
    # Reshaped out here: torch forbids layers that work in place on a view that a function returned.
    flat = values.reshape(-1, values.shape[-1]) if weight.ndim == 2 else values.reshape(n, -1, values.shape[-1])
    outputs = _Full.apply(flat, weight, bias, n, weight_rows, bias_rows)  # type: ignore[no-untyped-call]  # torch's
    return cast("torch.Tensor", outputs.reshape(*values.shape[:-1], outputs.shape[-1]))


class _Full(torch.autograd.Function):
    """A full layer that keeps the workers' weight gradients apart.

    Values are ``(all examples, features)`` with one weight for all, ``(n, examples of each, features)`` with one each.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        n: int,
        weight_rows: torch.Tensor,
        bias_rows: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.save_for_backward(values, weight)
        ctx.n, ctx.weight_rows, ctx.bias_rows = n, weight_rows, bias_rows
        if weight.ndim == 2:
            return nn.functional.linear(values, weight, bias)
        outputs = torch.bmm(values, weight.transpose(1, 2))
        if bias is not None:
            outputs += bias.unsqueeze(1)
        return outputs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values, weight = ctx.saved_tensors
        own_slopes = slopes.reshape(ctx.n, -1, slopes.shape[-1])
        own_values = values.reshape(ctx.n, -1, values.shape[-1])
        torch.bmm(own_slopes.transpose(1, 2), own_values, out=ctx.weight_rows)
        if ctx.bias_rows is not None:
            ctx.bias_rows.copy_(own_slopes.sum(1))
        back = None
        if ctx.needs_input_grad[0]:
            back = slopes @ weight if weight.ndim == 2 else torch.bmm(own_slopes, weight)
        return back, None, None, None, None, None


class _Convolution(torch.autograd.Function):
    """A convolution that keeps the workers' weight gradients apart.

    Channels come last in memory: on a CPU, pooling is then several times faster, and with it the whole round.
    """

    @staticmethod
    def forward(
        ctx: Any,
        values: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        n: int,
        weight_rows: torch.Tensor,
        bias_rows: torch.Tensor | None,
        settings: tuple[list[int], list[int], list[int], int],
    ) -> torch.Tensor:
        values = values.contiguous(memory_format=torch.channels_last)
        kernels = [_channels_last(kernel) for kernel in ([weight] if weight.ndim == 4 else weight)]
        ctx.save_for_backward(values, *kernels)
        ctx.n, ctx.weight_rows, ctx.bias_rows, ctx.settings = n, weight_rows, bias_rows, settings
        if weight.ndim == 4:
            return nn.functional.conv2d(values, kernels[0], bias, *settings)
        biases = [None] * n if bias is None else list(bias)
        own = _apart(values, n)
        return torch.cat([nn.functional.conv2d(own[i], kernels[i], biases[i], *settings) for i in range(n)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slopes: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        values, *kernels = ctx.saved_tensors
        slopes = slopes.contiguous(memory_format=torch.channels_last)
        shared, wanted = len(kernels) == 1, bool(ctx.needs_input_grad[0])
        own_values, own_slopes = _apart(values, ctx.n), _apart(slopes, ctx.n)
        backs = []
        for i in range(ctx.n):
            back, weight, bias = _backward(
                own_slopes[i],
                own_values[i],
                kernels[0 if shared else i],
                ctx.settings,
                (wanted and not shared, True, ctx.bias_rows is not None),
            )
            ctx.weight_rows[i].copy_(weight)
            if ctx.bias_rows is not None:
                ctx.bias_rows[i].copy_(bias)
            backs.append(back)
        whole = None
        if wanted:
            # With one kernel for all, the way back to the inputs is one call over everybody's examples.
            whole = (
                _backward(slopes, values, kernels[0], ctx.settings, (True, False, False))[0]
                if shared
                else torch.cat(backs)
            )
        return whole, None, None, None, None, None, None


def _apart(values: torch.Tensor, n: int) -> torch.Tensor:
    """``(n * batch, ...)`` as ``(n, batch, ...)``, in whatever order of channels."""
    return values.unflatten(0, (n, -1))  # type: ignore[no-untyped-call, no-any-return]  # torch's


def _channels_last(kernel: torch.Tensor) -> torch.Tensor:
    # Not `contiguous`, which leaves a kernel of one channel as it is, and torch then puts the outputs channels first.
    return torch.empty_like(kernel, memory_format=torch.channels_last).copy_(kernel)


def _backward(
    slopes: torch.Tensor,
    values: torch.Tensor,
    kernel: torch.Tensor,
    settings: tuple[list[int], list[int], list[int], int],
    wanted: tuple[bool, bool, bool],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    stride, padding, dilation, groups = settings
    result = torch.ops.aten.convolution_backward(
        slopes, values, kernel, [kernel.shape[0]], stride, padding, dilation, False, [0, 0], groups, list(wanted)
    )
    return cast("tuple[torch.Tensor, torch.Tensor, torch.Tensor]", result)
