"""Parameters of a model as one vector, and back."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Layout"]


@dataclass(frozen=True)
class Layout:
    """Where each trainable parameter of a model stands in a vector of d numbers.

    Parameters
    ----------
    names : tuple of str
        As ``named_parameters`` gives them; a parameter used twice appears once.
    shapes : tuple of tuple of int
        Their shapes.
    dtype : torch.dtype
        The one type that all of them have.

    Examples
    --------
    >>> model = torch.nn.Linear(3, 2)
    >>> layout = Layout.of(model)
    >>> layout.names, layout.d
    (('weight', 'bias'), 8)
    >>> vector = layout.flatten(model)
    >>> bool((layout.views(vector)["weight"] == model.weight).all())
    True
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, model: torch.nn.Module) -> Self:
        """The layout of a model's trainable parameters."""
        trainable = {name: value for name, value in model.named_parameters() if value.requires_grad}
        if not trainable:
            raise ValueError("The model has no trainable parameters. Check requires_grad.")
        if lazy := [name for name, value in trainable.items() if torch.nn.parameter.is_lazy(value)]:
            raise ValueError(
                f"The parameters {', '.join(lazy)} have no shape yet. Call the model once on one example first."
            )
        dtypes = {value.dtype for value in trainable.values()}
        if len(dtypes) > 1 or not next(iter(dtypes)).is_floating_point:
            raise ValueError(
                f"The parameters need one real floating-point type and have {', '.join(sorted(map(str, dtypes)))}. "
                "Convert the model, with model.float() for instance."
            )
        return cls(tuple(trainable), tuple(tuple(value.shape) for value in trainable.values()), dtypes.pop())

    @property
    def d(self) -> int:
        """How many numbers there are."""
        return sum(math.prod(shape) for shape in self.shapes)

    def flatten(self, model: torch.nn.Module) -> torch.Tensor:
        """A new vector with the model's parameters."""
        parameters = dict(model.named_parameters())
        return torch.cat([parameters[name].detach().reshape(-1) for name in self.names])

    def views(self, numbers: torch.Tensor) -> dict[str, torch.Tensor]:
        """The parameters inside a vector ``(d,)`` or a matrix ``(n, d)``, as views that share its memory."""
        if numbers.shape[-1] != self.d or numbers.ndim not in {1, 2}:
            raise ValueError(f"The model has d = {self.d} parameters and got numbers of shape {tuple(numbers.shape)}.")
        return {
            name: numbers[..., start:stop].view((*numbers.shape[:-1], *shape))
            for name, shape, start, stop in self._places()
        }

    def load(self, model: torch.nn.Module, vector: torch.Tensor) -> None:
        """Copy a vector into the model's parameters."""
        parameters = dict(model.named_parameters())
        with torch.no_grad():
            for name, value in self.views(vector).items():
                parameters[name].copy_(value)

    def _places(self) -> Iterator[tuple[str, tuple[int, ...], int, int]]:
        start = 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            stop = start + math.prod(shape)
            yield name, shape, start, stop
            start = stop
