"""Rows that are torch tensors on a device: a matrix, a list of tensors, or trees of tensors."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from mixtailor._checks import refuse
from mixtailor.updates.arrays import Kind, in_memory, is_array, is_torch, read
from mixtailor.updates.base import Call
from mixtailor.updates.engine import Floats, Integers
from mixtailor.updates.home import Home, run_width
from mixtailor.updates.layout import leaves_of, rebuilt, taken_apart
from mixtailor.updates.receive import Arrival
from mixtailor.updates.torch_engine import TorchEngine
from mixtailor.updates.tree import Leaves, Sections

__all__ = ["Device", "arrival", "matrix_arrival", "on_device"]

# A device wants more work at a time than a core's cache does.
RUN_ENTRIES = 1 << 21
# Entries of one row that travel to the host at once where a row's bytes are wanted.
_ROW = 1 << 20


@dataclass
class TensorLeaf:
    """n rows of one leaf: an (n, width) tensor, or a list of tensors of any shape and strides, never stacked.

    Attributes
    ----------
    rows : tensor or list of tensors
    width : int
        Coordinates of one row.
    dtype, device
        Of the answer.
    """

    rows: "torch.Tensor | list[torch.Tensor]"
    width: int
    dtype: torch.dtype
    device: torch.device

    @property
    def tile(self) -> torch.dtype:
        return torch.float64 if self.dtype == torch.float64 else torch.float32

    def one(self, row: int, start: int, stop: int) -> torch.Tensor:
        """A run of one row, in the type it has."""
        tensor = self.rows[row]
        if tensor.is_contiguous():
            return tensor.view(-1)[start:stop]
        if tensor.ndim == 1:
            return tensor[start:stop]
        # Any other strides: only the run is copied, by its indices.
        return tensor[torch.unravel_index(torch.arange(start, stop, device=tensor.device), tensor.shape)]

    def block(self, start: int, stop: int, device: torch.device) -> torch.Tensor:
        """A run of all rows; in place where they are a matrix of one type on that device."""
        if isinstance(self.rows, torch.Tensor) and self.rows.dtype == self.dtype and self.device == device:
            return self.rows[:, start:stop]
        runs = [self.one(row, start, stop).to(self.dtype) for row in range(len(self.rows))]
        return torch.stack([run.to(device, self.tile) for run in runs])

    def coordinates(self, which: Integers) -> Floats:
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

    def only(self, rows: Sequence[int]) -> "TensorLeaf":
        """These rows; of a matrix, views of them."""
        return TensorLeaf([self.rows[row] for row in rows], self.width, self.dtype, self.device)


class Device(Home):
    """n rows of tensors, computed where they are.

    A pass moves its small answers to the host once, when all its runs are through. A matrix is read in place; lists and
    trees are stacked a run at a time, and so are rows that lie on several devices.

    Parameters
    ----------
    leaves : sequence of TensorLeaf
        One for a matrix or a list of tensors, several for trees.
    engine : TorchEngine
        Where to compute.

    Notes
    -----
    The path is written for GPUs and tested for equality on the CPU device; it was not timed on a GPU.
    """

    engine: TorchEngine

    def __init__(
        self, leaves: Sequence[TensorLeaf], n: int, engine: TorchEngine, call: Call, received: Sequence[int]
    ) -> None:
        self.leaves = list(leaves)
        self.sections = Sections([leaf.width for leaf in leaves])
        super().__init__(n, self.sections.d, engine, call, received)
        wide = any(leaf.tile == torch.float64 for leaf in leaves)
        self.tile = torch.float64 if wide and engine.wide == torch.float64 else torch.float32
        self._arrived: Callable[[Device], Arrival] | None = None

    @property
    def arrival(self) -> Arrival | None:
        """What was received, where this home was asked for: made anew each time, or memory would wait for a cycle."""
        return self._arrived and self._arrived(self)

    @property
    def largest(self) -> float:
        return min(
            float(torch.finfo(kind).max if kind.is_floating_point else torch.iinfo(kind).max)
            for kind in {leaf.dtype for leaf in self.leaves}
        )

    def runs(self) -> list[tuple[int, int]]:
        return self.view_runs(self.n)

    def view_runs(self, n: int) -> list[tuple[int, int]]:
        width = run_width(max(n, self.n), RUN_ENTRIES)
        return self.sections.runs(width, width)

    def block(self, start: int, stop: int) -> torch.Tensor:
        pieces = self.sections.pieces(start, stop)
        blocks = [self.leaves[leaf].block(lo, hi, self.engine.device) for leaf, lo, hi in pieces]
        if len(blocks) == 1:
            return blocks[0]
        empty = torch.empty((self.n, 0), dtype=self.tile, device=self.engine.device)
        return torch.cat([empty, *(block.to(self.tile) for block in blocks)], dim=1)

    def coordinates(self, which: Integers) -> Floats:
        out = np.empty((self.n, len(which)), np.float64 if self.tile == torch.float64 else np.float32)
        for leaf, here, inside in self.sections.owners(which):
            out[:, here] = self.leaves[leaf].coordinates(inside)
        return out

    def only(self, rows: Sequence[int]) -> "Device":
        kept = [leaf.only(rows) for leaf in self.leaves]
        received = [self.received[row] for row in rows]
        return Device(kept, len(received), TorchEngine(self.engine.device), self.call, received)

    # Passes.

    def gathered(self, jobs: Sequence[Callable[[], Any]]) -> Any:
        # One after the other: the device has its own queue, and torch its own threads on the CPU.
        parts = [torch.as_tensor(job(), device=self.engine.device) for job in jobs]
        answers = torch.stack(parts)
        doubts, self.engine.doubts = self.engine.doubts, []
        if doubts:
            # One transfer for both: the answers, and whether anything on the way to them was not finite.
            doubtful = torch.stack(doubts).any().to(answers.dtype)
            moved = torch.cat([answers.reshape(-1), doubtful[None]]).cpu().numpy()
            if moved[-1]:
                self.examine()
            return moved[:-1].reshape(answers.shape)
        return answers.cpu().numpy()

    # The answer.

    def new(self) -> Any:
        parts = [torch.empty(leaf.width, dtype=leaf.dtype, device=leaf.device) for leaf in self.leaves]
        return parts[0] if len(parts) == 1 else parts

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        if len(self.leaves) == 1:
            return answer[start:stop]
        return [answer[leaf][lo:hi] for leaf, lo, hi in self.sections.pieces(start, stop)]

    def copy_row(self, row: int, answer: Any) -> None:
        for leaf, part in zip(self.leaves, [answer] if len(self.leaves) == 1 else answer, strict=True):
            part.copy_(leaf.rows[row].reshape(-1))

    def assemble(self, matrices: list[Any]) -> Any:
        return torch.cat([matrix.to(self.tile) for matrix in matrices], dim=1)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return vector[start:stop].to(self.engine.device, self.engine.wide)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        index = torch.as_tensor(which, device=vector.device)
        return np.asarray(vector[index].cpu().numpy(), np.float64)

    def row_bytes(self, row: int) -> Iterable[Any]:
        for leaf in self.leaves:
            for start in range(0, leaf.width, _ROW):
                run = leaf.one(row, start, min(start + _ROW, leaf.width))
                yield np.ascontiguousarray(in_memory(run)).view(np.uint8).data

    def adopt(self, answer: Any, rule: str) -> Any:
        if not is_torch(answer):
            answer = super().adopt(answer, rule)
        vector = torch.as_tensor(answer).detach().to(self.engine.device)
        if vector.is_complex():
            raise TypeError(f"{rule} needs to return real numbers and returned a tensor of {vector.dtype}.")
        if tuple(vector.shape) != (self.d,):
            refuse(f"{rule} needs to return a vector of {self.d} coordinates and returned shape {tuple(vector.shape)}.")
        if not vector.isfinite().all():
            refuse(f"{rule} returned an update that is not finite, from finite rows.")
        return vector.to(self.engine.wide)

    def _zero_is_exact(self, p: float) -> bool:
        # The least float32 difference is 1.4e-45, whose seventh power float64 still holds; float64 has its own least.
        return self.engine.wide == torch.float64 and p <= (7.0 if self.tile == torch.float32 else 1.0)


def on_device(updates: Any) -> Device:
    """Updates as tensors on the device they are on, the CPU included, where rules would else read them as arrays.

    Parameters
    ----------
    updates : tensor or sequence
        An (n, ...) tensor, or a sequence of n tensors or trees of tensors.

    Returns
    -------
    Device
        To be handed to any rule; the answer is a tensor, or a tree of tensors, as one worker's update was.

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
        row = Kind("torch", kind.dtype, kind.shape[1:], kind.bits, kind.own, kind.device)
        result = matrix_arrival(raw, row.as_floats() if row.discrete else row)
    else:
        if not len(updates):
            refuse("Updates need at least one row and got none.")
        rows, wrong = taken_apart(updates, leaves_of)
        result = arrival(updates, Leaves.settled(rows, wrong), wrong)
    home = result.home
    assert isinstance(home, Device)
    faults, n, restore, flatten = result.faults, result.n, result.restore, result.flatten
    home._arrived = lambda home: Arrival(home, dict(faults), n, restore, flatten)
    return home


def matrix_arrival(matrix: torch.Tensor, kind: Kind) -> Arrival:
    """A home for an (n, ...) tensor whose rows are of this kind."""
    n, dtype = len(matrix), kind.own or torch.float64
    # Trailing axes that cannot be seen as one are read row by row.
    whole = matrix.ndim == 2 or matrix[0].is_contiguous()
    rows: Any = matrix.view(n, kind.size) if whole and n else list(matrix)
    engine = TorchEngine(matrix.device)
    home = Device([TensorLeaf(rows, kind.size, dtype, matrix.device)], n, engine, Call(), range(n))

    def flatten(reference: Any) -> torch.Tensor:
        return _moved(kind.flatten(reference), engine)

    return Arrival(home, {}, n, lambda answer, _home: answer.reshape(kind.shape), flatten)


def arrival(updates: Sequence[Any], leaves: Leaves, faults: dict[int, str]) -> Arrival:
    """A home for n tensors or trees of tensors."""
    kinds = leaves.layout.kinds
    devices = [_device(kinds[path]) for path in leaves.paths]
    # Where leaves lie on several devices, one that is no CPU computes.
    engine = TorchEngine(
        next((one for one in devices if one.type != "cpu"), devices[0] if devices else torch.device("cpu"))
    )
    parts = [
        TensorLeaf([_tensor(array) for _, array in leaves.of(path)], kinds[path].size, _dtype(kinds[path]), device)
        for path, device in zip(leaves.paths, devices, strict=True)
    ]
    home = Device(parts, len(leaves.received), engine, Call(), leaves.received)

    def restore(answer: Any, left: Home) -> Any:
        answers = {path: part.reshape(kinds[path].shape) for path, part in leaves.parts(answer).items()}
        for path in leaves.layout.discrete:
            flat = leaves.discrete(path, left.received, lambda array: in_memory(array).reshape(-1))
            answers[path] = _tensor(flat).to(_device(kinds[path])).reshape(kinds[path].shape)
        return rebuilt(updates[leaves.layout.template], answers)

    def flatten(reference: Any) -> torch.Tensor:
        return _moved(leaves.flatten(reference), engine)

    return Arrival(home, faults, len(updates), restore, flatten)


def _device(kind: Kind) -> torch.device:
    return kind.device if isinstance(kind.device, torch.device) else torch.device("cpu")


def _dtype(kind: Kind) -> torch.dtype:
    if isinstance(kind.own, torch.dtype):
        return kind.own
    return torch.bfloat16 if kind.bits else torch.from_numpy(np.empty(0, kind.dtype)).dtype


def _tensor(array: Any) -> torch.Tensor:
    """A leaf as a tensor; what another library holds is seen in place."""
    if isinstance(array, torch.Tensor):
        return array
    return torch.from_numpy(array if array.flags.writeable and array.dtype.isnative else np.array(array))


def _moved(vector: Any, engine: TorchEngine) -> torch.Tensor:
    return torch.from_numpy(np.asarray(vector)).to(engine.wide).to(engine.device)
