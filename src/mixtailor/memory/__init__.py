"""What a server remembers between rounds, beside rules that remember nothing."""

from mixtailor.memory.memory import Memory
from mixtailor.memory.recommended import recommended
from mixtailor.mixing import registry

__all__ = ["Memory", "recommended"]

registry.add("memory", Memory)
registry.add("recommended", recommended)
