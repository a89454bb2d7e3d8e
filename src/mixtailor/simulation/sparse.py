"""Training examples of which most numbers are zero, for the first layer of a perceptron."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
import torch

from mixtailor.kernels import sparse, threads
from mixtailor.kernels.perceptron import between_layers

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from mixtailor.simulation.data import Dataset

__all__ = ["SparseBatch", "SparseInputs"]

DENSEST = 0.3  # of the numbers: with more of them, the dense products are as fast


@dataclass(frozen=True, eq=False)
class SparseInputs:
    r"""The bytes of a data set that are not zero, times the factor of its normalisation.

    .. math:: W x = W v - \mathrm{shift} \, W 1, \qquad x = v - \mathrm{shift}

    with v the raw numbers times the factor, most of which are zero. MNIST's images have 19 % of their pixels: the first
    layer takes less time than the dense product. The results differ from the dense ones by rounding.

    Parameters
    ----------
    compressed : tuple
        As `mixtailor.kernels.sparse.compress` gives it.
    shift : float
        What the normalisation subtracts from every number.
    width : int
        Numbers in an example.
    """

    compressed: sparse.Compressed
    shift: float
    width: int

    @classmethod
    def of(cls, data: Dataset) -> Self | None:
        """The compressed training examples; None where they are not bytes, too dense, or normalised by channel."""
        raw = data.train_inputs
        width = raw[0].numel()
        if raw.dtype != torch.uint8 or raw.device.type != "cpu" or len(data.mean) > 1 or width > 1 << 16:
            return None
        if int(torch.count_nonzero(raw)) > DENSEST * raw.numel():
            return None
        factor, shift = data.scaling
        examples = raw.reshape(len(raw), width).numpy()
        return cls(sparse.compress(examples, float(factor)), float(shift), width)


@dataclass(frozen=True, eq=False)
class SparseBatch:
    """The examples that each of n workers has in a round, as the first layer of a perceptron reads them.

    Parameters
    ----------
    inputs : SparseInputs
    chosen : array
        ``(n, batch)``, their indices.
    room : dict
        Where buffers are kept from batch to batch. Batches in use at the same time need one each.
    """

    inputs: SparseInputs
    chosen: npt.NDArray[np.int64]
    room: dict[str, torch.Tensor] = field(default_factory=dict)

    def linear(self, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        """``weight x + bias`` for all examples, ``(n * batch, units)``, in a buffer that the next call overwrites."""
        return self._products(weight, bias)[:, : len(weight)]

    def dense(self) -> torch.Tensor:
        """The normalised examples ``(n, batch, width)``, in a buffer that the next call overwrites."""
        out = self._zeros("dense", *self.chosen.shape, self.inputs.width)
        flat = out.numpy().reshape(self.chosen.size, -1)
        sparse.dense(self.inputs.compressed, self.chosen.reshape(-1), self.inputs.shift, flat)
        return out

    def one_hidden_layer(
        self, weights: Sequence[torch.Tensor], rows: Sequence[torch.Tensor], labels: torch.Tensor
    ) -> torch.Tensor:
        """Write the gradients of a perceptron with one hidden layer to `rows`, and return the losses ``(n,)``.

        Threads divide the workers among them, up to the gradient of the first weight, which is a product of torch's.
        Each worker's sums are the same whoever computes them.
        `weights` are the weight and the bias of each layer, and `rows` the same with a first dimension of n.
        """
        table, base = self._laid_out(weights[0], weights[1])
        n, count = self.chosen.shape
        hidden = self._zeros("out", n * count, table.shape[1]).numpy().reshape(n, count, -1)
        padded = self._zeros("slopes", n, count, table.shape[1])
        slopes = padded.numpy()
        losses = torch.empty(n)
        below, second, above = (row.numpy() for row in rows[1:])
        of_examples, found = labels.numpy(), losses.numpy()
        last, added = weights[2].numpy(), weights[3].numpy()

        def gradients_of(some: slice) -> None:
            chosen, values = self.chosen[some], hidden[some].reshape(-1, hidden.shape[2])
            sparse.products(self.inputs.compressed, chosen.reshape(-1), table, base, values)
            gradients = below[some], second[some], above[some]
            between_layers(values, of_examples[some], last, added, slopes[some], gradients, found[some])

        bounds = [n * k // threads.count() for k in range(threads.count() + 1)]
        parts = [slice(low, high) for low, high in itertools.pairwise(bounds) if low < high]
        threads.over([functools.partial(gradients_of, part) for part in parts])
        torch.bmm(padded[:, :, : len(weights[0])].transpose(1, 2), self.dense(), out=rows[0])
        return losses

    def _products(self, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        table, base = self._laid_out(weight, bias)
        out = self._zeros("out", self.chosen.size, table.shape[1])
        sparse.products(self.inputs.compressed, self.chosen.reshape(-1), table, base, out.numpy())
        return out

    def _laid_out(self, weight: torch.Tensor, bias: torch.Tensor | None) -> tuple[sparse.Single, sparse.Single]:
        units, pitch = len(weight), _pitch(len(weight))
        table, base = self._zeros("table", self.inputs.width, pitch).numpy(), self._zeros("base", pitch).numpy()
        added = torch.zeros(units) if bias is None else bias
        sparse.laid_out(weight.numpy(), added.numpy(), np.float32(self.inputs.shift), table, base)
        return table, base

    def _zeros(self, name: str, *shape: int) -> torch.Tensor:
        """A buffer for one purpose, zero at first: a tensor, since torch aligns it to the registers."""
        held = self.room.get(name)
        if held is None or held.shape != shape:
            held = self.room[name] = torch.zeros(shape)
        return held


def _pitch(units: int) -> int:
    return -(-units // sparse.SINGLES) * sparse.SINGLES
