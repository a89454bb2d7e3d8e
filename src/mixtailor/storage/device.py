"""Rows that are torch tensors on a device."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np
import torch

from mixtailor._types import Array, Integers
from mixtailor.kernels.tensors import Tensors
from mixtailor.storage.rows import Rows

__all__ = ["DeviceRows"]


@final
class DeviceRows(Rows):
    """n tensors of one size, computed where they are. `Layers` puts the layers of a model side by side.

    An (n, d) tensor is read in place; a list of tensors, of any shape and strides, is stacked one range at a time. The
    result has `dtype` and is on `device`; what it takes is computed at `where`. Written for GPUs and tested for
    equality on the CPU device; it was not timed on a GPU.
    """

    def __init__(
        self,
        rows: "torch.Tensor | list[torch.Tensor]",
        d: int,
        dtype: torch.dtype,
        device: torch.device,
        where: torch.device,
    ) -> None:
        self.rows, self.n, self.d, self.dtype, self.device, self.where = rows, len(rows), d, dtype, device, where
        self.space = Tensors(where)
        wide = dtype == torch.float64 and self.space.wide == torch.float64
        self.tile = torch.float64 if wide else torch.float32
        self.single = not wide and self.space.wide == torch.float64

    @property
    def largest(self) -> float:
        return float(torch.finfo(self.dtype).max)

    def block(self, start: int, stop: int) -> torch.Tensor:
        if isinstance(self.rows, torch.Tensor) and self.rows.dtype == self.dtype and self.device == self.where:
            return self.rows[:, start:stop]
        return torch.stack([self._part(row, slice(start, stop)) for row in range(self.n)])

    def _part(self, row: int, which: slice | torch.Tensor) -> torch.Tensor:
        """Some coordinates of one row, where and as they are computed with; of any strides, these alone are copied."""
        tensor = self.rows[row]
        if tensor.is_contiguous():
            found = tensor.view(-1)[which]
        else:
            index = torch.arange(which.start, which.stop) if isinstance(which, slice) else which
            found = tensor[torch.unravel_index(index, tensor.shape)]
        return found.to(self.dtype).to(self.where, self.tile)

    def coordinates(self, which: Integers) -> Array:
        index = torch.from_numpy(which)
        return np.asarray(torch.stack([self._part(row, index) for row in range(self.n)]).cpu().numpy())

    def only(self, rows: Sequence[int]) -> "DeviceRows":
        return DeviceRows([self.rows[row] for row in rows], self.d, self.dtype, self.device, self.where)

    def new(self) -> Any:
        return torch.empty(self.d, dtype=self.dtype, device=self.device)

    def copy_row(self, row: int, result: Any) -> None:
        result.copy_(self.rows[row].reshape(-1))
