"""What an attacker remembers from round to round."""

from dataclasses import dataclass, field
from typing import Any

__all__ = ["Memory"]


@dataclass
class Memory:
    """The memory of an attacker that plays over rounds. `Attack.begin` makes it; attacks bring it up to date.

    The code that runs the rounds passes it the server's result of each round, which all workers see.

    Attributes
    ----------
    round : int
        How many rounds the attack has played.
    previous : Any
        The server's last result, in the form of one update; None before the first.
    notes : dict
        What the attack keeps for itself.

    Examples
    --------
    >>> from mixtailor.attacks import ROP
    >>> memory = ROP().begin()
    >>> memory.observe(np.array([1.0, 2.0]))
    >>> memory.previous
    array([1., 2.])
    """

    round: int = 0
    previous: Any = None
    notes: dict[str, Any] = field(default_factory=dict)

    def observe(self, result: Any) -> None:
        """The server's result of this round; memories of wrapped attacks, which are among the notes, see it too."""
        self.previous = result
        for note in self.notes.values():
            if callable(seen := getattr(note, "observe", None)):
                seen(result)
