"""Results to a page a person looks at, and to figures for a paper."""

from mixtailor.report.figures import draw, draw_results
from mixtailor.report.page import write

__all__ = ["draw", "draw_results", "write"]
