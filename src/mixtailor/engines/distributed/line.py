"""A line between one worker and one aggregator: a `TCPStore` that the aggregator serves and nobody else writes to.

Not gloo's `send` and `recv`: with torch 2.13, a message longer than the receiver expects ends the receiving *process*
there, and a receive that times out closes the receiver's connections to the other ranks as well. A store takes bytes,
is asked whether they are there, and drops the connection of whoever sends too many at once.
"""

import datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixtailor.engines.distributed.peers import TYPES
from mixtailor._types import Integers

if TYPE_CHECKING:  # torch.distributed has them, and does not export them to type checkers
    from torch._C._distributed_c10d import Store, TCPStore
else:
    from torch.distributed import TCPStore

__all__ = ["INCOMPLETE", "LATE", "SOUND", "Line", "reasons"]

# A store takes at most 8 MiB a value: 8 arrived and 9 did not, with torch 2.13.
PIECE = 1 << 22

# What can be wrong with what a worker sent, by the number that the aggregators tell one another.
FAULTS = ("", "not there in time", "no message of this protocol", "of another length or type", "incomplete")
SOUND, LATE, STRANGE, MISFIT, INCOMPLETE = range(5)

_NAMES = {str(kind).removeprefix("torch."): kind for kind in TYPES}


class Line:
    """Vectors over one store, each as a header and pieces, by purpose and round.

    Parameters
    ----------
    store : Store
    """

    def __init__(self, store: "Store") -> None:
        self.store = store

    @classmethod
    def serve(cls, host: str, seconds: float) -> tuple["Line", str]:
        """A new store on a free port, and its address."""
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=datetime.timedelta(seconds=seconds))
        return cls(store), f"{host}:{store.port}"

    @classmethod
    def join(cls, address: str, seconds: float) -> "Line":
        """The store at an address."""
        host, _, port = address.rpartition(":")
        return cls(TCPStore(host, int(port), is_master=False, timeout=datetime.timedelta(seconds=seconds)))

    def send(self, purpose: str, round: int, vector: torch.Tensor) -> None:
        """Set the pieces, then the header that says they are there."""
        data = vector.detach().cpu().contiguous().view(torch.uint8).numpy()
        for place, start in enumerate(range(0, len(data), PIECE)):
            piece: Any = data[start : start + PIECE].tobytes()  # bytes do as well as the text of the signature
            self.store.set(f"{purpose}/{round}/{place}", piece)
        self.store.set(f"{purpose}/{round}", f"{str(vector.dtype).removeprefix('torch.')} {vector.numel()}")

    def has(self, purpose: str, round: int) -> bool:
        """Whether the header is there; does not wait."""
        return bool(self.store.check([f"{purpose}/{round}"]))

    def read(self, purpose: str, round: int, into: torch.Tensor) -> int:
        """Fill a vector with what was sent; SOUND, or the number of what is wrong. Trusts nothing that it reads."""
        header = bytes(self.store.get(f"{purpose}/{round}"))
        name, _, count = header[:64].decode("ascii", "replace").partition(" ")
        if len(header) > 64 or name not in _NAMES or not (count.isascii() and count.isdecimal()):
            return STRANGE
        if _NAMES[name] != into.dtype or int(count) != into.numel():
            return MISFIT
        data = into.view(torch.uint8).numpy()
        keys = [f"{purpose}/{round}/{place}" for place in range(-(-len(data) // PIECE))]
        if keys and not self.store.check(keys):
            return INCOMPLETE
        for place, key in enumerate(keys):
            run = data[place * PIECE : (place + 1) * PIECE]
            piece = self.store.get(key)
            if len(piece) != len(run):
                return INCOMPLETE
            run[:] = np.frombuffer(piece, np.uint8)
        return SOUND

    def forget(self, purpose: str, round: int, size: int) -> None:
        """Give back the memory of a message of that many bytes."""
        for key in [f"{purpose}/{round}", *(f"{purpose}/{round}/{place}" for place in range(-(-size // PIECE)))]:
            self.store.delete_key(key)

    def note(self, key: str, value: str = "") -> None:
        """A word for the other side."""
        self.store.set(key, value)

    def noted(self, key: str) -> bool:
        return bool(self.store.check([key]))


def reasons(codes: Integers) -> dict[int, str]:
    """The faulty rows and what is wrong with each."""
    return {row: FAULTS[int(code)] for row, code in enumerate(codes) if code != SOUND}
