"""What a server remembers between rounds, beside rules that remember nothing."""

from mixtailor.memory.memory import Memory
from mixtailor.memory.recommended import recommended

__all__ = ["Memory", "recommended"]
