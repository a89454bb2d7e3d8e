"""Results to a page a person looks at, and to figures for a paper."""

from mixtailor.report.comparison import Comparison, compare
from mixtailor.report.figures import draw, draw_results
from mixtailor.report.page import write
from mixtailor.report.tables import tables

__all__ = ["Comparison", "compare", "draw", "draw_results", "tables", "write"]
