"""How many updates a rule needs where f of them may be Byzantine, for rules that take no f themselves."""

from mixtailor._checks import check_f, plural, refuse
from mixtailor.rules.base import Rule

__all__ = ["NEVER", "check_tolerates", "formula_of", "rows_for"]

NEVER = 1 << 62  # updates; where no number of them is enough
_MOST_ROWS = 1 << 20


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
    low = high = max(rule.min_rows(), 1)
    while rule.tolerates(high) < f:
        low, high = high + 1, 2 * high
        if high > _MOST_ROWS:
            return NEVER
    while low < high:  # with more updates, no rule tolerates fewer of them
        middle = (low + high) // 2
        low, high = (low, middle) if rule.tolerates(middle) >= f else (middle + 1, high)
    return low


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
