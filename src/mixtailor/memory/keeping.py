"""`Keeping`: what rules that keep something between rounds have in common."""

import io
import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np

from mixtailor._checks import refuse, shown
from mixtailor._files import atomic_write, check_unpacked, read_bounded
from mixtailor.memory.remembering import Around
from mixtailor.rules.base import Rule
from mixtailor.rules.request import RequestKeywords

__all__ = ["Keeping"]

# Twenty times what the most workers of a memory take with the sketches and time scales that are the default.
_MOST_BYTES = 10 << 30


@dataclass(frozen=True, repr=False)
class Keeping(Around):
    """A rule around another that learns from every call. One belongs to one training. Abstract.

    Laws: `aggregate` learns where it gives an update, and `decide` never does. What was learnt is `state`, in arrays
    and plain values, and a copy that is given it by `restore` continues with the same results.
    """

    outermost: ClassVar[bool] = True

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that is remembered, as arrays and plain values; `restore` takes it."""

    @abstractmethod
    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` gave."""

    @abstractmethod
    def reset(self, key: int | None = None) -> None:
        """Forget everything, and take another secret where there is one."""

    @abstractmethod
    def expect(self, workers: Sequence[object]) -> None:
        """Whose updates `decide` will be given, in order."""

    def repeated(self, workers: Sequence[object]) -> None:
        """Whose updates in the next call were in an earlier one: they say nothing new of these workers."""

    @abstractmethod
    def members(self, n: int) -> tuple[tuple[Rule, ...], tuple[float, ...]]:
        """This rule around each that may be drawn when n updates arrive, and their probabilities."""

    def __call__(self, updates: Any, **request: Unpack[RequestKeywords]) -> Any:
        """The aggregated update; see `aggregate`."""
        return self.aggregate(updates, **request).update

    def save(self, path: str | Path) -> None:
        """Write the state to a file, whole or not at all. Whoever reads it knows the server's secrets in it."""
        state = self.state()
        arrays: Any = {name: state.pop(name) for name in list(state) if isinstance(state[name], np.ndarray)}
        text = np.frombuffer(json.dumps(state).encode(), np.uint8)
        content = io.BytesIO()
        np.savez(content, state=text, **arrays)
        with atomic_write(Path(path), mode=0o600) as file:
            file.write(content.getvalue())

    def load(self, path: str | Path) -> None:
        """Continue from a file that `save` wrote."""
        content = read_bounded(path, _MOST_BYTES)
        try:
            check_unpacked(io.BytesIO(content), len(content))
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                found = {name: arrays[name] for name in arrays.files if name != "state"}
                state = {**json.loads(arrays["state"].tobytes()), **found}
        except Exception:  # what a damaged archive raises is no fixed set: BadZipFile, zlib.error, TokenError, ...
            refuse(f"{shown(path)} is not the state of a memory, or is damaged.")
        self.restore(state)
