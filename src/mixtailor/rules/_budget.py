"""The nodes that an exact search may visit."""

from typing import Any

__all__ = ["Budget"]


class Budget:
    """Counts the nodes of a search, and ends it when they are spent: an unproven result is never given.

    Attributes
    ----------
    spent : int
        Nodes visited so far.
    """

    def __init__(self, rule: Any, n: int) -> None:
        self.rule, self.n, self.spent = rule, n, 0

    def spend(self) -> None:
        """Visit one more node."""
        if self.spent >= self.rule.budget:
            f, name = self.rule.f, type(self.rule).__name__
            raise RuntimeError(
                f"{self.rule!r} needs more than its budget: {self.spent} nodes of the search on {self.n} rows are "
                f"spent, and which {self.n - f} rows are best is not proven. Raise budget, or in place of {name} put "
                f"NNM in front of a rule that needs no search: NNM(f={f}) >> Comed()."
            )
        self.spent += 1
