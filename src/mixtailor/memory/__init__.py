"""What a server remembers between rounds, beside rules that remember nothing."""

from mixtailor.memory.guarded import Guarded
from mixtailor.memory.inbox import (
    Fresh,
    FutureError,
    Inbox,
    Kept,
    LateError,
    RefusedError,
    ReplayedError,
    UnknownWorkerError,
)
from mixtailor.memory.keeping import Keeping
from mixtailor.memory.memory import Memory
from mixtailor.memory.recommended import recommended

__all__ = [
    "Fresh",
    "FutureError",
    "Guarded",
    "Inbox",
    "Keeping",
    "Kept",
    "LateError",
    "Memory",
    "RefusedError",
    "ReplayedError",
    "UnknownWorkerError",
    "recommended",
]
