"""Rows that are torch tensors on a device: a matrix, a list of tensors, or layers of tensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from mixtailor._types import Array, Integers
from mixtailor.kernels.tensors import Tensors
from mixtailor.storage.layers import Sections
from mixtailor.storage.rows import Rows, run_width

__all__ = ["DeviceRows", "TensorLayer"]

# A device needs more work at a time than the cache of a core holds.
RUN_ENTRIES = 1 << 21


@final
@dataclass
class TensorLayer:
    """n rows of one layer: an (n, width) tensor, or a list of tensors of any shape and strides, never stacked.

    Attributes
    ----------
    rows : tensor or list of tensors
    width : int
        Coordinates of one row.
    dtype, device
        Of the result.
    """

    rows: "torch.Tensor | list[torch.Tensor]"
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def tile(self) -> torch.dtype:
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def one(self, row: int, start: int, stop: int) -> torch.Tensor:
        """A range of one row, in its own type."""
        tensor = self.rows[row]
        if tensor.is_contiguous():
            return tensor.view(-1)[start:stop]
        if tensor.ndim == 1:
            return tensor[start:stop]
        # Any other strides: only the range is copied, by its indices.
        return tensor[torch.unravel_index(torch.arange(start, stop, device=tensor.device), tensor.shape)]

    def block(self, start: int, stop: int, device: torch.device) -> torch.Tensor:
        """A range of all rows; in place where they are a matrix of one type on that device."""
        if isinstance(self.rows, torch.Tensor) and self.rows.dtype == self.dtype and self.device == device:
            return self.rows[:, start:stop]
        runs = [self.one(row, start, stop).to(self.dtype) for row in range(len(self.rows))]
        return torch.stack([run.to(device, self.tile) for run in runs])

    def coordinates(self, which: Integers) -> Array:
        """Single coordinates of all rows, on the host."""
        kept = []
        for row in range(len(self.rows)):
            tensor = self.rows[row]
            index = torch.as_tensor(which, device=tensor.device)
            flat = (
                tensor.view(-1)[index] if tensor.is_contiguous() else tensor[torch.unravel_index(index, tensor.shape)]
            )
            kept.append(flat.to(self.dtype).to(self.device, self.tile))
        return np.asarray(torch.stack(kept).cpu().numpy())

    def only(self, rows: Sequence[int]) -> "TensorLayer":
        """These rows; of a matrix, views of them."""
        return TensorLayer([self.rows[row] for row in rows], self.width, self.dtype, self.device)


@final
class DeviceRows(Rows):
    """n rows of tensors, computed where they are.

    A matrix is read in place; lists and layers are stacked one range at a time, and so are rows on several devices.

    Parameters
    ----------
    layers : sequence of TensorLayer
        One for a matrix or a list of tensors, several for the layers of a model.
    n : int
    device : torch.device
        Where to compute.

    Notes
    -----
    Written for GPUs and tested for equality on the CPU device; it was not timed on a GPU.
    """

    def __init__(self, layers: Sequence[TensorLayer], n: int, device: torch.device) -> None:
        self.layers, self.sections = list(layers), Sections([layer.width for layer in layers])
        self.n, self.d, self.space = n, self.sections.d, Tensors(device)
        wide = any(layer.tile == torch.float64 for layer in layers)
        self.tile = torch.float64 if wide and self.space.wide == torch.float64 else torch.float32
        self.single = self.tile == torch.float32 and self.space.wide == torch.float64
        self.device = device

    @property
    def largest(self) -> float:
        return min(
            float(torch.finfo(kind).max if kind.is_floating_point else torch.iinfo(kind).max)
            for kind in {layer.dtype for layer in self.layers}
        )

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        width = run_width(max(rows or 0, self.n), RUN_ENTRIES)
        return self.sections.runs(width, width)

    def block(self, start: int, stop: int) -> torch.Tensor:
        pieces = self.sections.pieces(start, stop)
        blocks = [self.layers[layer].block(low, high, self.device) for layer, low, high in pieces]
        if len(blocks) == 1:
            return blocks[0]
        empty = torch.empty((self.n, 0), dtype=self.tile, device=self.device)
        return torch.cat([empty, *(block.to(self.tile) for block in blocks)], dim=1)

    def coordinates(self, which: Integers) -> Array:
        out = np.empty((self.n, len(which)), np.float64 if self.tile == torch.float64 else np.float32)
        for layer, here, inside in self.sections.owners(which):
            out[:, here] = self.layers[layer].coordinates(inside)
        return out

    def only(self, rows: Sequence[int]) -> "DeviceRows":
        return DeviceRows([layer.only(rows) for layer in self.layers], len(rows), self.device)

    def new(self) -> Any:
        parts = [torch.empty(layer.width, dtype=layer.dtype, device=layer.device) for layer in self.layers]
        return parts[0] if len(parts) == 1 else parts

    def window(self, result: Any, start: int, stop: int) -> Any:
        if len(self.layers) == 1:
            return result[start:stop]
        return [result[layer][low:high] for layer, low, high in self.sections.pieces(start, stop)]

    def copy_row(self, row: int, result: Any) -> None:
        for layer, part in zip(self.layers, [result] if len(self.layers) == 1 else result, strict=True):
            part.copy_(layer.rows[row].reshape(-1))
