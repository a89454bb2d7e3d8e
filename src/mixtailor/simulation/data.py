"""A data set in memory, indexed and not loaded."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import nn

from mixtailor.simulation.sparse import SparseInputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from mixtailor.simulation.gradients import Loss

    Indices = torch.Tensor | npt.NDArray[np.int64] | Sequence[int]

__all__ = ["Dataset"]


@dataclass(frozen=True, eq=False)
class Dataset:
    r"""Examples and labels for training and testing, as tensors in memory.

    Inputs stay as they were read, bytes for instance, and are normalised when a batch is taken:

    .. math:: x = (\mathrm{raw} / \mathrm{unit} - \mathrm{mean}) / \mathrm{deviation}

    with one mean and deviation for all numbers, or one per channel. Bytes are a quarter of the memory that float32
    takes, which counts where many runs go side by side.

    Parameters
    ----------
    name : str
        What it is called in tables and reports.
    classes : int
        How many labels there are; labels are 0 to ``classes - 1``. 1 for regression: labels are then real numbers.
    train_inputs, test_inputs : torch.Tensor or array
        One example per row, of any shape behind: ``(examples, channels, height, width)`` for images.
    train_labels, test_labels : torch.Tensor or array
        One number per example: whole for classes, real for regression.
    unit : float
        What the raw numbers are divided by first: 255 for bytes.
    mean, deviation : tuple of float
        One number, or one for each channel (the first dimension of an example).

    Examples
    --------
    Your own tensors:

    >>> data = Dataset("mine", 2, torch.eye(4), torch.tensor([0, 1, 0, 1]), torch.eye(4)[:2], torch.tensor([0, 1]))
    >>> inputs, labels = data.train([[0, 1], [3, 2]])
    >>> inputs.shape, labels.tolist()
    (torch.Size([2, 2, 4]), [[0, 1], [1, 0]])
    """

    name: str
    classes: int
    train_inputs: torch.Tensor
    train_labels: torch.Tensor
    test_inputs: torch.Tensor
    test_labels: torch.Tensor
    unit: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            for kind in ("inputs", "labels"):
                object.__setattr__(
                    self, f"{part}_{kind}", _tensor(self.name, part, kind, getattr(self, f"{part}_{kind}"))
                )
            inputs, labels = getattr(self, f"{part}_inputs"), getattr(self, f"{part}_labels")
            _check_part(f"{self.name}: {part}", inputs, labels, self.classes)
            kind_of_number = torch.float32 if labels.is_floating_point() else torch.int64
            object.__setattr__(self, f"{part}_labels", labels.to(kind_of_number))
            if inputs.dtype != torch.uint8:
                object.__setattr__(self, f"{part}_inputs", inputs.to(torch.float32))
        if self.train_inputs.shape[1:] != self.test_inputs.shape[1:]:
            raise ValueError(
                f"{self.name}: training and test examples need one shape and have {tuple(self.train_inputs.shape[1:])} "
                f"and {tuple(self.test_inputs.shape[1:])}."
            )
        channels = self.train_inputs.shape[1] if self.train_inputs.ndim > 1 else 1
        if len(self.mean) != len(self.deviation) or len(self.mean) not in {1, channels}:
            raise ValueError(
                f"{self.name}: mean and deviation need 1 number or {channels} (one a channel) and have "
                f"{len(self.mean)} and {len(self.deviation)}."
            )
        if not self.unit > 0 or any(not deviation > 0 for deviation in self.deviation):
            raise ValueError(f"{self.name}: unit and deviation must be above 0; got {self.unit} and {self.deviation}.")

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one example."""
        return tuple(self.train_inputs.shape[1:])

    @property
    def regression(self) -> bool:
        """Whether labels are real numbers, which the network has to meet, and no classes.

        Examples
        --------
        >>> targets = torch.tensor([0.5, 1.5])
        >>> Dataset("mine", 1, torch.eye(2), targets, torch.eye(2), targets).regression
        True
        """
        return self.train_labels.is_floating_point()

    @property
    def loss(self) -> Loss:
        """What training minimises by default: the cross-entropy, or for regression the squared error."""
        return squared_error if self.regression else nn.functional.cross_entropy

    def __len__(self) -> int:
        """How many examples there are to train on."""
        return len(self.train_inputs)

    def train(self, indices: Indices | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Training examples and their labels, normalised, in the shape of `indices`: ``(n, batch)`` for a round."""
        return self._batch(self.train_inputs, self.train_labels, indices)

    def test(self, indices: Indices | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """Test examples and their labels, normalised; all of them without `indices`."""
        return self._batch(self.test_inputs, self.test_labels, indices)

    @cached_property
    def sparse(self) -> SparseInputs | None:
        """The training examples without their zeros; None where there are too few of these to gain from."""
        return SparseInputs.of(self)

    def to(self, device: torch.device | str) -> Dataset:
        """The same data on another device.

        Examples
        --------
        >>> from mixtailor.simulation import synthetic
        >>> synthetic().to("cpu").shape
        (20,)
        """
        return replace(
            self,
            train_inputs=self.train_inputs.to(device),
            train_labels=self.train_labels.to(device),
            test_inputs=self.test_inputs.to(device),
            test_labels=self.test_labels.to(device),
        )

    def pooled(self, side: int) -> Dataset:
        """The same images with squares of `side` x `side` pixels averaged to one: small enough for large sweeps.

        Rows and columns that fill no square are left out. Averages are kept as float32, in the unit of the pixels.

        Examples
        --------
        >>> from mixtailor.simulation import digits
        >>> digits().pooled(2).shape
        (1, 4, 4)
        """
        if len(self.shape) != 3 or not 1 <= side <= min(self.shape[1:]):
            raise ValueError(
                f"{self.name}: pooling needs images of shape (channels, height, width) and squares of 1 to height or "
                f"width pixels, and the examples have shape {self.shape} and the squares {side}."
            )
        if side == 1:
            return self

        def small(images: torch.Tensor) -> torch.Tensor:
            # In pieces: all images of CIFAR-10 as float32 would take 600 MB.
            starts = range(0, len(images), 4096)
            return torch.cat([nn.functional.avg_pool2d(images[a : a + 4096].float(), side) for a in starts])

        return replace(self, train_inputs=small(self.train_inputs), test_inputs=small(self.test_inputs))

    def _batch(
        self, inputs: torch.Tensor, labels: torch.Tensor, indices: Indices | None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if indices is None:
            return self._normalise(inputs, fresh=False), labels
        where = torch.as_tensor(indices, dtype=torch.int64, device=labels.device)
        flat = where.reshape(-1)
        # index_select on a flat index is several times faster than indexing by a matrix, and refuses negative indices.
        chosen = self._normalise(inputs.index_select(0, flat), fresh=True)
        return chosen.reshape(*where.shape, *inputs.shape[1:]), labels.index_select(0, flat).reshape(where.shape)

    def _normalise(self, raw: torch.Tensor, *, fresh: bool) -> torch.Tensor:
        if self.unit == 1.0 and self.mean == (0.0,) and self.deviation == (1.0,):
            return raw.to(torch.float32)
        factor, shift = self.scaling
        return raw.to(torch.float32, copy=not fresh).mul_(factor).sub_(shift)

    @cached_property  # as tensors once: a small batch is made in less time than they are
    def scaling(self) -> tuple[torch.Tensor, torch.Tensor]:
        """What raw numbers are multiplied by, and what is subtracted then."""
        raw = self.train_inputs
        deviation = torch.tensor(self.deviation, dtype=torch.float32, device=raw.device)
        mean = torch.tensor(self.mean, dtype=torch.float32, device=raw.device)
        across = (-1,) + (1,) * (raw.ndim - 2) if len(self.mean) > 1 else (-1,)
        return (1.0 / (self.unit * deviation)).view(across), (mean / deviation).view(across)


def squared_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The mean squared error of one output per example, ``(batch,)`` or ``(batch, 1)``.

    Examples
    --------
    >>> squared_error(torch.tensor([[1.0], [3.0]]), torch.tensor([1.0, 1.0]))
    tensor(2.)
    """
    if outputs.numel() != targets.numel():
        raise ValueError(
            "For regression a network needs one output per example, and this one has the shape "
            f"{tuple(outputs.shape)} for {len(targets)} examples. Let it end in torch.nn.Linear(features, 1)."
        )
    return nn.functional.mse_loss(outputs.reshape(targets.shape), targets.to(outputs.dtype))


def _tensor(name: str, part: str, kind: str, given: object) -> torch.Tensor:
    """A tensor as it is, an array as a tensor."""
    if isinstance(given, torch.Tensor):
        return given
    try:
        return torch.as_tensor(given)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(
            f"{name}: {part}_{kind} need to be a tensor or an array of numbers, and are {type(given).__name__}: "
            f"{error}. mixtailor.simulation.as_dataset numbers labels that are words."
        ) from None


def _check_part(part: str, inputs: torch.Tensor, labels: torch.Tensor, classes: int) -> None:
    if labels.ndim != 1 or len(labels) != len(inputs) or not len(labels):
        raise ValueError(
            f"{part} data need one label for each of at least one example, and have inputs of shape "
            f"{tuple(inputs.shape)} and labels of shape {tuple(labels.shape)}."
        )
    if labels.is_floating_point() and classes == 1:
        if not bool(torch.isfinite(labels).all()):
            raise ValueError(f"{part} labels contain NaN or infinity. Clean them before training.")
    elif labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(
            f"{part} labels need to be whole numbers and are {labels.dtype}. Use labels.long(), or for regression "
            "classes=1."
        )
    elif int(labels.min()) < 0 or int(labels.max()) >= classes:
        raise ValueError(
            f"{part} labels need to be 0 to classes - 1 = {classes - 1} and reach from {int(labels.min())} to "
            f"{int(labels.max())}."
        )
    if inputs.is_complex():
        raise ValueError(f"{part} inputs need to be real numbers and are {inputs.dtype}.")
    if inputs.is_floating_point() and not bool(torch.isfinite(inputs).all()):
        raise ValueError(f"{part} inputs contain NaN or infinity. Clean them before training.")
