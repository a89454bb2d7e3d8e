"""The gradients of all workers in one round, together."""

from __future__ import annotations

import copy
import warnings
from contextlib import nullcontext
from typing import TYPE_CHECKING, Literal

import torch
from torch import nn
from torch.func import functional_call, grad_and_value, vmap

from mixtailor.simulation import layerwise, perceptron
from mixtailor.simulation.flat import Layout
from mixtailor.simulation.randomness import seeded
from mixtailor.simulation.sparse import SparseBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    Method = Literal["layers", "vmap", "loop"]

__all__ = ["WorkerGradients"]

MEMORY = 2**29  # bytes that the workers computed together may take


class WorkerGradients:
    """Each worker's gradient of its own mean loss on its own batch, as the rows of a matrix.

    Three ways, with the same result up to rounding; the first that fits is taken:

    - ``"layers"``: one forward and backward pass over everybody's examples, in which each layer's weight gradient is
      formed for each worker. For (nested) `torch.nn.Sequential` of common layers.
    - ``"vmap"``: `torch.func.vmap` of the gradient over the workers. For nearly any module.
    - ``"loop"``: one worker after the other. For modules that vmap cannot follow.

    Parameters
    ----------
    model : torch.nn.Module
        The network. It is copied; its weights come with each call.
    loss : callable
        ``loss(outputs, labels)``, a mean over the batch.
    method : str, optional
        One of the three, instead of the first that fits.
    chunk : int, optional
        How many workers are computed together. Without it, as many as fit in half a gigabyte, by the model's
        activations on one example and its number of parameters.

    Examples
    --------
    >>> from mixtailor.simulation import Layout, mlp, synthetic
    >>> data, model = synthetic(), mlp((20,), 10)
    >>> gradients = WorkerGradients(model)
    >>> inputs, labels = data.train([[0, 1, 2], [3, 4, 5]])
    >>> matrix, losses = gradients(Layout.of(model).flatten(model), inputs, labels, seed=7)
    >>> matrix.shape, losses.shape
    (torch.Size([2, 1994]), torch.Size([2]))

    Notes
    -----
    Dropout differs between workers and examples. It draws from torch's global generator, which is set from `seed` for
    the call and put back: the same seed, weights, batches, method and chunk give the same bits on a CPU with the same
    number of threads. Methods consume randomness in different orders, so with dropout their results differ as two
    draws do.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Loss = nn.functional.cross_entropy,
        *,
        method: Method | None = None,
        chunk: int | None = None,
    ) -> None:
        _refuse_statistics(model)
        self.layout = Layout.of(model)
        self.loss = loss
        self._model = copy.deepcopy(model).train()
        if method == "layers" and not layerwise.is_sequence(self._model):
            raise ValueError('method="layers" needs a torch.nn.Sequential of common layers without hooks. Use "vmap".')
        if chunk is not None and chunk < 1:
            raise ValueError(f"chunk needs to be at least 1 worker and is {chunk}.")
        self.method: Method = method or ("layers" if layerwise.is_sequence(self._model) else "vmap")
        self._plain = loss is nn.functional.cross_entropy and perceptron.is_perceptron(self._model)
        self._decided = self.method != "vmap" or method is not None
        self._chunk = chunk
        self._numbers: dict[torch.Size, int] = {}
        self._buffer: torch.Tensor | None = None

    def __call__(
        self,
        weights: torch.Tensor,
        inputs: torch.Tensor | SparseBatch,
        labels: torch.Tensor,
        *,
        seed: int | None = None,
        out: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The gradients ``(n, d)`` and the losses ``(n,)``.

        Parameters
        ----------
        weights : torch.Tensor
            ``(d,)``, the same for all workers, or ``(n, d)``, one row for each.
        inputs : torch.Tensor or SparseBatch
            ``(n, batch, ...)``, or the same examples without their zeros, where `takes_sparse` holds.
        labels : torch.Tensor
            ``(n, batch)``.
        seed : int, optional
            For dropout. Without it torch's global generator is used.
        out : torch.Tensor, optional
            Where the gradients are written. Without it a buffer of this object, *which the next call overwrites*.
        """
        if isinstance(inputs, SparseBatch):
            return self._of_sparse(weights, inputs, labels, out)
        n = self._check(weights, inputs, labels)
        inputs = inputs.to(self.layout.dtype) if inputs.is_floating_point() else inputs
        if not self._decided:
            self._decide(weights, inputs, labels)
        matrix = self._prepare(n, out, weights)
        losses = torch.empty(n, dtype=self.layout.dtype, device=weights.device)
        # A perceptron draws nothing: no state of a generator has to be kept.
        with nullcontext() if self._plain and self.method == "layers" else seeded(seed, weights.device):
            chunk = self._chunk or self._fitting(inputs)
            for start in range(0, n, chunk):
                part = slice(start, start + chunk)
                own = weights if weights.ndim == 1 else weights[part]
                losses[part] = self._compute(own.detach(), inputs[part], labels[part], matrix[part])
        return matrix, losses

    @property
    def takes_sparse(self) -> bool:
        """Whether examples may come without their zeros: for a perceptron in float32."""
        return self._plain and self.method == "layers" and self.layout.dtype == torch.float32

    def _of_sparse(
        self, weights: torch.Tensor, inputs: SparseBatch, labels: torch.Tensor, out: torch.Tensor | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self.takes_sparse or weights.ndim != 1:
            raise ValueError("Examples without their zeros need a perceptron in float32, and one (d,) for all workers.")
        matrix = self._prepare(len(labels), out, weights)
        return matrix, self._by_layers(weights.detach(), inputs, labels, matrix)

    def _compute(
        self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor, matrix: torch.Tensor
    ) -> torch.Tensor:
        if self.method == "layers":
            return self._by_layers(weights, inputs, labels, matrix)
        if self.method == "loop":
            return self._one_by_one(weights, inputs, labels, matrix)
        return self._by_vmap(weights, inputs, labels, matrix)

    def _decide(self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor) -> None:
        """Try vmap on one example, with randomness of its own: a resumed run, which tries again, must draw the same."""
        scratch = torch.empty(1, self.layout.d, dtype=self.layout.dtype, device=weights.device)
        first = weights if weights.ndim == 1 else weights[:1]
        with seeded(0, weights.device):
            try:
                self._by_vmap(first.detach(), inputs[:1, :1], labels[:1, :1], scratch)
            except (RuntimeError, ValueError, NotImplementedError) as error:
                # What is wrong with the model itself, and not with vmap, raises here.
                self._one_by_one(first.detach(), inputs[:1, :1], labels[:1, :1], scratch)
                self.method = "loop"
                reason = str(error).splitlines()[0]
                warnings.warn(
                    f"torch.func.vmap cannot follow this model, so workers are computed one by one: {reason}",
                    stacklevel=3,
                )
        self._decided = True

    def _by_layers(
        self, weights: torch.Tensor, inputs: torch.Tensor | SparseBatch, labels: torch.Tensor, matrix: torch.Tensor
    ) -> torch.Tensor:
        assert isinstance(self._model, nn.Sequential)
        if isinstance(inputs, SparseBatch) or (self._plain and weights.ndim == 1):
            with torch.no_grad():
                own, rows = self.layout.views(weights), self.layout.views(matrix)
                return perceptron.cross_entropy_gradients(self._model, own, rows, inputs, labels)
        with torch.enable_grad():
            outputs = layerwise.forward(self._model, self.layout.views(weights), self.layout.views(matrix), inputs)
            losses = self._losses(outputs, labels)
            losses.sum().backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        return losses.detach()

    def _losses(self, outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Each worker's own loss."""
        if self.loss is nn.functional.cross_entropy and outputs.ndim == 3:
            # The usual case without vmap, whose overhead is a quarter of a round on a small network.
            of_examples = nn.functional.cross_entropy(outputs.flatten(0, 1), labels.flatten(), reduction="none")
            return of_examples.view(labels.shape).mean(1)
        losses: torch.Tensor = vmap(self.loss, randomness="different")(outputs, labels)
        return losses

    def _by_vmap(
        self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor, matrix: torch.Tensor
    ) -> torch.Tensor:
        differentiate = grad_and_value(self._loss_at)
        shared = None if weights.ndim == 1 else 0
        found: tuple[dict[str, torch.Tensor], torch.Tensor] = vmap(
            differentiate, in_dims=(shared, 0, 0), randomness="different"
        )(self.layout.views(weights), inputs, labels)
        slopes, losses = found
        for name, rows in self.layout.views(matrix).items():
            rows.copy_(slopes[name])
        return losses.detach()

    def _one_by_one(
        self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor, matrix: torch.Tensor
    ) -> torch.Tensor:
        losses = []
        for i, row in enumerate(matrix):
            with torch.enable_grad():
                views = self.layout.views(weights if weights.ndim == 1 else weights[i])
                values = {name: view.detach().requires_grad_() for name, view in views.items()}
                loss = self._loss_at(values, inputs[i], labels[i])
                slopes = torch.autograd.grad(loss, list(values.values()), allow_unused=True)
            for place, slope in zip(self.layout.views(row).values(), slopes, strict=True):
                place.zero_() if slope is None else place.copy_(slope)
            losses.append(loss.detach())
        return torch.stack(losses)

    def _loss_at(self, values: dict[str, torch.Tensor], inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.loss(functional_call(self._model, values, (inputs,)), labels)

    def _check(self, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor) -> int:
        n = len(inputs)
        if inputs.ndim < 2 or labels.shape[:2] != inputs.shape[:2] or not inputs.shape[0] * inputs.shape[1]:
            raise ValueError(
                "Worker gradients need inputs (n, batch, ...) and labels (n, batch) and got "
                f"{tuple(inputs.shape)} and {tuple(labels.shape)}."
            )
        if weights.shape not in {(self.layout.d,), (n, self.layout.d)}:
            raise ValueError(
                f"Weights need the shape (d,) = ({self.layout.d},) or (n, d) = ({n}, {self.layout.d}) and have "
                f"{tuple(weights.shape)}."
            )
        return n

    def _prepare(self, n: int, out: torch.Tensor | None, weights: torch.Tensor) -> torch.Tensor:
        shape = (n, self.layout.d)
        if out is not None:
            if out.shape != shape or out.dtype != self.layout.dtype or out.stride(1) != 1:
                raise ValueError(
                    f"out needs shape {shape}, type {self.layout.dtype} and contiguous rows, and has "
                    f"{tuple(out.shape)}, {out.dtype} and strides {out.stride()}."
                )
            return out
        if self._buffer is None or len(self._buffer) < n or self._buffer.device != weights.device:
            self._buffer = torch.empty(shape, dtype=self.layout.dtype, device=weights.device)
        return self._buffer[:n]

    def _fitting(self, inputs: torch.Tensor) -> int:
        """How many workers fit in `MEMORY`: a function of shapes alone, since it decides how dropout's draws fall."""
        shape = inputs.shape[1:]
        if shape not in self._numbers:
            with seeded(0, inputs.device):  # measured again in a resumed run, which must draw the same afterwards
                per_example = _activations(self._model, inputs[0, :1])
            # Values and their slopes; a gradient and what vmap makes before it is copied to its row.
            self._numbers[shape] = 2 * per_example * shape[0] + 2 * self.layout.d
        size = torch.finfo(self.layout.dtype).bits // 8
        return max(1, min(len(inputs), MEMORY // (size * self._numbers[shape])))


def _refuse_statistics(model: nn.Module) -> None:
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm) or (
            isinstance(module, nn.modules.batchnorm._NormBase) and module.track_running_stats
        ):
            kind = type(module).__name__
            raise ValueError(
                f"The model has a {kind} at {name or 'its root'!r}, whose running statistics are no gradient: they "
                "would reach the server around the aggregation. Use torch.nn.GroupNorm(groups, channels) instead."
            )


def _activations(model: nn.Module, example: torch.Tensor) -> int:
    """How many numbers the modules of a model put out for one example."""
    counted = [example.numel()]
    measured = copy.deepcopy(model).eval()

    def count(module: nn.Module, inputs: object, outputs: object) -> None:
        if isinstance(outputs, torch.Tensor) and not list(module.children()):
            counted.append(outputs.numel())

    for module in measured.modules():
        module.register_forward_hook(count)
    with torch.no_grad():
        measured(example)
    return sum(counted)
