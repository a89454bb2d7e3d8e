"""The generator that torch's layers draw from, set for a while."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["seeded"]


@contextlib.contextmanager
def seeded(seed: int | None, device: torch.device | str = "cpu") -> Iterator[None]:
    """Seed torch's generator, and give it back as it was.

    Dropout and the initial weights of layers take their randomness from torch's global generator and from no other.
    Inside this block it starts from `seed`; outside, nobody notices. With ``seed=None`` the block changes nothing.

    Examples
    --------
    >>> before = torch.get_rng_state()
    >>> with seeded(3):
    ...     first = torch.rand(2)
    >>> with seeded(3):
    ...     second = torch.rand(2)
    >>> bool((first == second).all()), bool((torch.get_rng_state() == before).all())
    (True, True)
    """
    if seed is None:
        yield
        return
    where = torch.device(device)
    with torch.random.fork_rng(devices=[where] if where.type == "cuda" else []):
        # The default generator alone: torch.manual_seed would also reseed devices that nobody forked.
        torch.default_generator.manual_seed(seed)
        if where.type == "cuda":
            with torch.cuda.device(where):
                torch.cuda.manual_seed(seed)
        yield
