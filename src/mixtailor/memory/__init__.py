"""What a server remembers between rounds, beside rules that remember nothing."""

from mixtailor.memory.guarded import Guarded
from mixtailor.memory.keeping import Keeping
from mixtailor.memory.memory import Memory
from mixtailor.memory.recommended import recommended

__all__ = ["Guarded", "Keeping", "Memory", "recommended"]
