"""Tensors on a device: a matrix, a list of tensors, or nested containers of tensors."""

from typing import Any

import numpy as np
import torch

from mixtailor._checks import refuse
from mixtailor.intake.arrays import is_array, read
from mixtailor.intake.arrival import Arrival
from mixtailor.intake.trees import Leaves, leaves_of, of_leaves, of_matrix
from mixtailor.kernels.space import BFLOAT16
from mixtailor.storage.device import DeviceRows
from mixtailor.storage.kinds import Kind
from mixtailor.storage.layers import Layers
from mixtailor.storage.rows import Rows

__all__ = ["layers_on_device", "matrix_on_device", "on_device"]


def on_device(updates: Any) -> Arrival:
    """Receive updates as tensors on the device they are on, also on the CPU, where rules would read them as arrays.

    Parameters
    ----------
    updates : tensor or sequence
        An (n, ...) tensor, or a sequence of n tensors or containers of tensors.

    Returns
    -------
    Arrival
        For any rule; the result is a tensor, or a container of tensors, as one update was.

    Examples
    --------
    >>> from mixtailor.rules import Comed
    >>> Comed()(on_device(torch.tensor([[1.0, 2.0], [3.0, 5.0], [2.0, 9.0]])))
    tensor([2., 5.])
    """
    if is_array(updates):
        kind, raw = read(torch.as_tensor(updates))
        if len(kind.shape) < 2 or not kind.shape[0]:
            refuse(f"Updates need n rows of d coordinates, an (n, d) tensor, and got shape {kind.shape}.")
        return of_matrix(updates, kind.row, matrix_on_device(raw, kind.row))
    if not len(updates):
        refuse("Updates need at least one row and got none.")
    leaves, faults = leaves_of(updates)
    return of_leaves(updates, leaves, faults, layers_on_device(leaves))


def matrix_on_device(matrix: torch.Tensor, kind: Kind) -> DeviceRows:
    """The storage of an (n, ...) tensor whose rows are of this kind."""
    n, dtype = len(matrix), kind.own or torch.float64
    # Trailing axes that cannot be seen as one are read row by row.
    whole = matrix.ndim == 2 or matrix[0].is_contiguous()
    rows: Any = matrix.view(n, kind.size) if whole and n else list(matrix)
    return DeviceRows(rows, kind.size, dtype, matrix.device, matrix.device)


def layers_on_device(leaves: Leaves) -> Rows:
    """The storage of n tensors or containers of tensors."""
    kinds = leaves.kinds
    own = [kinds[path].device for path in leaves.paths]
    devices = [device if isinstance(device, torch.device) else torch.device("cpu") for device in own]
    # Where layers are on several devices, one that is not the CPU computes.
    where = next((one for one in devices if one.type != "cpu"), devices[0] if devices else torch.device("cpu"))
    layers: list[Rows] = []
    for path, device in zip(leaves.paths, devices, strict=True):
        kind, tensors = kinds[path], [_tensor(array) for array in leaves.arrays[path]]
        layers.append(DeviceRows(tensors, kind.size, _dtype(kind), device, where))
    return layers[0] if len(layers) == 1 else Layers(layers, len(leaves.received))


def _dtype(kind: Kind) -> torch.dtype:
    if isinstance(kind.own, torch.dtype):
        return kind.own
    return torch.bfloat16 if kind.dtype == BFLOAT16 else torch.from_numpy(np.empty(0, kind.dtype)).dtype


def _tensor(array: Any) -> torch.Tensor:
    """An array as a tensor; that of another library is read in place."""
    if isinstance(array, torch.Tensor):
        return array
    return torch.from_numpy(array if array.flags.writeable and array.dtype.isnative else np.array(array))
