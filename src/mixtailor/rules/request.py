"""`Request`: what a caller says about one call of a rule, besides the updates."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, SupportsBytes, TypedDict

from mixtailor._checks import nearest, refuse

__all__ = ["EMPTY", "KeySource", "OnFault", "Request", "RequestKeywords"]

OnFault = Literal["raise", "skip"]


class KeySource(Protocol):
    """Where the randomness of a call comes from: `mixtailor.mixing.Entropy` is one.

    A key for "preaggregation" may be anything that `bytes` can be made of: every call asks for one, and few use it.
    """

    def key(self, purpose: str) -> SupportsBytes: ...


class RequestKeywords(TypedDict, total=False):
    """The keyword arguments of a call, for type checkers and editors; `Request` says what they mean."""

    workers: Sequence[object] | None
    reference: Any
    honest: Sequence[int] | None
    round: int | None
    entropy: KeySource | None
    on_fault: OnFault
    weights: Sequence[float] | None
    cap: float | None
    share: float | None


@dataclass(frozen=True, eq=False)
class Request:
    """What a caller says about one call besides the updates.

    It is made once, from the keyword arguments of the call; `Rule.aggregate` says what each of them means.

    Examples
    --------
    >>> Request.of({"workers": ["ann", "bob"], "on_fault": "skip"}).names(2)
    ('ann', 'bob')
    >>> Request.of({"worker": ["ann", "bob"]})
    Traceback (most recent call last):
    TypeError: A call of a rule takes no argument 'worker'. Did you mean 'workers'?
    """

    workers: Sequence[object] | None = None
    reference: Any = None
    honest: Sequence[int] | None = None
    round: int | None = None
    entropy: KeySource | None = None
    on_fault: OnFault = "raise"
    weights: Sequence[float] | None = None
    cap: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if self.weights is None and (self.cap is not None or self.share is not None):
            refuse("cap= and share= say something about weights=, and none were given.")
        if self.on_fault not in ("raise", "skip"):
            refuse(f"on_fault needs to be 'raise' or 'skip' and is {self.on_fault!r}.")

    @classmethod
    def of(cls, keywords: Mapping[str, Any]) -> "Request":
        """The request that these keyword arguments make."""
        if not keywords:
            return EMPTY
        try:
            return cls(**keywords)
        except TypeError:
            known = [item.name for item in fields(cls)]
            for name in keywords:
                if name not in known:
                    message = f"A call of a rule takes no argument {name!r}. {nearest(name, known)}"
                    raise TypeError(message) from None
            raise

    def names(self, n: int) -> tuple[object, ...]:
        """The names of the n workers; empty if none were given."""
        if self.workers is None:
            return ()
        # An iterator could be read once only, a set has its own order, and the letters of a text are no names.
        if not isinstance(self.workers, Collection) or isinstance(self.workers, (str, bytes, set, frozenset)):
            message = f"workers= needs a list of names, one for each update, and got {type(self.workers).__name__}."
            raise TypeError(message)
        if len(self.workers) != n:
            refuse(f"workers= needs one name for each of the {n} updates and got {len(self.workers)}.")
        return tuple(self.workers)


EMPTY = Request()
