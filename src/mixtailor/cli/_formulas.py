"""Formulas from code: a method that is called with letters in place of numbers returns its own formula."""

from collections.abc import Mapping

__all__ = ["Letter", "formula"]

Number = int | float


class Letter:
    """A sum of terms, each a text with a number before it; 1 has the empty text.

    In comparisons, a letter counts as larger than every number.

    Examples
    --------
    >>> n, f = Letter.named("n"), Letter.named("f")
    >>> print(6 * (1 + f / (n - 2 * f)))
    6(1 + f/(n - 2f))
    """

    def __init__(self, terms: Mapping[str, Number]) -> None:
        self.terms = {text: factor for text, factor in terms.items() if factor}

    @classmethod
    def named(cls, name: str) -> "Letter":
        return cls({name: 1})

    def __str__(self) -> str:
        shown = ""
        for text, factor in self.terms.items():
            size = abs(factor)
            # A quotient takes its number before the line: 2f/(n - f).
            term = text if size == 1 and text else f"{size:g}{text}"
            sign = (" + " if factor > 0 else " - ") if shown else ("" if factor > 0 else "-")
            shown += sign + term
        return shown or "0"

    def _factor(self) -> str:
        """The text as part of a product."""
        text = str(self)
        return text if len(self.terms) == 1 else f"({text})"

    def __add__(self, other: "Letter | Number") -> "Letter":
        terms = dict(self.terms)
        for text, factor in _letter(other).terms.items():
            terms[text] = terms.get(text, 0) + factor
        return Letter(terms)

    def __radd__(self, other: Number) -> "Letter":
        return _letter(other) + self

    def __neg__(self) -> "Letter":
        return Letter({text: -factor for text, factor in self.terms.items()})

    def __sub__(self, other: "Letter | Number") -> "Letter":
        return self + -_letter(other)

    def __rsub__(self, other: Number) -> "Letter":
        return _letter(other) - self

    def __mul__(self, other: "Letter | Number") -> "Letter":
        if not isinstance(other, Letter):
            if other == 1 or len(self.terms) == 1:
                return Letter({text: factor * other for text, factor in self.terms.items()})
            return Letter({self._factor(): other})
        between = " " if "/" in str(self) else ""
        return Letter({f"{self._factor()}{between}{other._factor()}": 1})

    def __rmul__(self, other: Number) -> "Letter":
        return self * other

    def __truediv__(self, other: "Letter | Number") -> "Letter":
        return Letter({f"{self._factor()}/{_letter(other)._factor()}": 1})

    def __rtruediv__(self, other: Number) -> "Letter":
        return _letter(other) / self

    def __floordiv__(self, other: "Letter | Number") -> "Letter":
        return Letter({f"floor({self / other})": 1})

    def __pow__(self, power: int) -> "Letter":
        return Letter({f"{self._factor()}^{power}": 1})

    def __gt__(self, other: "Letter | Number") -> bool:
        return True

    def __ge__(self, other: "Letter | Number") -> bool:
        return True

    def __lt__(self, other: "Letter | Number") -> bool:
        return False

    def __le__(self, other: "Letter | Number") -> bool:
        return False


def _letter(value: "Letter | Number") -> Letter:
    return value if isinstance(value, Letter) else Letter({"": value})


def formula(value: object) -> str | None:
    """What a method returned for letters, as text; None if it returned None."""
    if value is None:
        return None
    return str(value) if isinstance(value, Letter) else f"{value:g}" if isinstance(value, (int, float)) else str(value)
