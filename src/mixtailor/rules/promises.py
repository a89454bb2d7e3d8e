"""How many updates a rule needs where f of them may be Byzantine, for rules that take no f themselves."""

from collections.abc import Callable

from mixtailor._checks import check_f, plural, refuse
from mixtailor.rules.base import Rule

__all__ = ["NEVER", "check_tolerates", "formula_of", "least_rows", "rows_for"]

NEVER = 1 << 62  # updates; where no number of them is enough
_MOST_ROWS = 1 << 20


def least_rows(fits: Callable[[int], bool], start: int = 1) -> int:
    """The least n from `start` on that fits, where every larger one fits, too; `NEVER` if none does.

    Examples
    --------
    >>> least_rows(lambda n: n * n >= 50)
    8
    """
    low = high = start
    while not fits(high):
        low, high = high + 1, 2 * high
        if high > _MOST_ROWS:
            return NEVER
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle + 1, high)
    return low


def rows_for(rule: Rule, f: int) -> int:
    """The least n at which a rule tolerates f Byzantine updates; `NEVER` if it does at none.

    Examples
    --------
    >>> from mixtailor import Comed, FLTrust, Krum, Subsampled
    >>> rows_for(Comed(), 3), rows_for(FLTrust(), 3), rows_for(Krum(f=3), 3)
    (7, 4, 9)
    >>> rows_for(Subsampled(Comed(), k=5), 3) == NEVER
    True
    """
    # With more updates, no rule tolerates fewer of them.
    return least_rows(lambda n: rule.tolerates(n) >= f, max(rule.min_rows(), 1))


def check_tolerates(rule: Rule, f: int, n: int) -> None:
    """Raise a ValueError if a rule does not tolerate f Byzantine updates of n."""
    check_f(type(rule).__name__, f)
    rule.check_rows(n)
    most = rule.tolerates(n)
    if f <= most:
        return
    least = rows_for(rule, f)
    of = "" if n == NEVER else f" of {n}"
    what = f"{rule!r} tolerates {most or 'no'} Byzantine {'update' if most < 2 else 'updates'}{of}, and f = {f}."
    if least == NEVER:
        refuse(f"{what} More updates do not change that. Take a rule that tolerates f, or lower f.")
    formula = f" ({formula_of(least, f)})" if least == 2 * f + 1 else ""
    refuse(f"{what} For that it needs at least {plural(least, 'row')}{formula}. Lower f, or wait for more workers.")


def formula_of(least: int, f: int) -> str:
    """The requirement of a rule that takes no f, as errors word it."""
    return "n >= 2f + 1" if least == 2 * f + 1 else f"n >= {least} for f = {f}"
