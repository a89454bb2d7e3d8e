"""Results to a page a person looks at, and to figures for a paper."""

from mixtailor.report.figures import draw
from mixtailor.report.page import write

__all__ = ["draw", "write"]
