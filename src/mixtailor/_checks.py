"""Every input check and its wording: what is needed, by which formula, what arrived, what to do."""

import difflib
from collections.abc import Iterable, Sequence
from typing import NoReturn

__all__ = [
    "FaultError",
    "MissingPackageError",
    "NotRobustWarning",
    "brief",
    "check_count",
    "check_f",
    "check_fraction",
    "check_norm",
    "check_positive",
    "check_rows",
    "listing",
    "nearest",
    "plural",
    "refuse",
    "shown",
]


class FaultError(ValueError):
    """More updates are provably faulty than the rule tolerates.

    Attributes
    ----------
    rows : tuple of int
        The faulty updates, as received.

    Examples
    --------
    >>> import mixtailor as mt
    >>> try:
    ...     mt.Mean()(np.array([[1.0, 2.0], [np.nan, 0.0]]))
    ... except mt.FaultError as error:
    ...     error.rows
    (1,)
    """

    __module__ = "mixtailor"  # the name under which tracebacks and pickles refer to it

    def __init__(self, message: str, rows: tuple[int, ...]) -> None:
        super().__init__(message)
        self.rows = rows

    def __reduce__(self) -> tuple[type["FaultError"], tuple[str, tuple[int, ...]]]:
        return type(self), (str(self), self.rows)


class MissingPackageError(ImportError):
    """An optional package is needed and is not installed.

    Examples
    --------
    >>> import mixtailor as mt
    >>> print(mt.MissingPackageError("The Flower adapter", "flwr", "flower"))
    The Flower adapter needs `flwr`. Install it with: pip install "mixtailor[flower]"
    """

    __module__ = "mixtailor"  # as above

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f'{what} needs `{package}`. Install it with: pip install "mixtailor[{extra}]"')


class NotRobustWarning(UserWarning):
    """A rule, or a rule of a pool, has no bound: Byzantine updates can move its result as far as they like.

    Examples
    --------
    The paper's pool has such rules. Where it is used on purpose, to reproduce the paper, silence the warning by its
    class.

    >>> import warnings
    >>> import mixtailor as mt
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore", mt.NotRobustWarning)
    ...     rule = mt.MixTailor(mt.paper_pool(f=2))
    """

    __module__ = "mixtailor"  # as above


def refuse(message: str) -> NoReturn:
    """Raise a ValueError with the message."""
    raise ValueError(message)


def plural(count: int, one: str, many: str | None = None) -> str:
    """Count and noun: "1 row", "3 rows"."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def shown(item: object) -> str:
    """Text from outside as it may be printed: control characters, which a terminal would obey, as their escapes.

    Examples
    --------
    >>> shown("ann\\x1b[2J.npy")
    'ann\\\\x1b[2J.npy'
    """
    text = str(item)
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def listing(items: Iterable[object], limit: int = 12) -> str:
    """A short enumeration that stays readable for a thousand rows, and on a terminal whatever the names are."""
    words = [shown(item) for item in items]
    if len(words) > limit:
        return ", ".join(words[:limit]) + f" and {len(words) - limit} more"
    return ", ".join(words)


def nearest(word: str, known: Sequence[str]) -> str:
    """A hint at the nearest known word, or at all of them."""
    close = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {close[0]!r}?" if close else f"Known are {listing(sorted(known), 40)}."


def brief(value: object) -> str:
    """A value as an error shows it: by its type where it takes more than a line, as updates do.

    Examples
    --------
    >>> brief(2.5), brief([0.0] * 100)
    ('2.5', 'a list')
    """
    text = repr(value)
    return text if len(text) <= 80 and "\n" not in text else f"a {type(value).__name__}"


def check_f(name: str, f: object) -> None:
    """``f`` counts updates: a whole number, at least 0."""
    if isinstance(f, bool) or not hasattr(f, "__index__") or (hasattr(f, "shape") and f.shape):
        raise TypeError(f"{name} needs f as a whole number of updates that may be Byzantine and got {brief(f)}.")
    if f.__index__() < 0:
        refuse(f"{name} needs f >= 0, the number of updates that may be Byzantine, and got f = {f}.")


def check_count(name: str, parameter: str, value: object, least: int = 1) -> None:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} needs {parameter} as a whole number and got {brief(value)}.")
    if value.__index__() < least:
        refuse(f"{name} needs {parameter} >= {least} and got {parameter} = {value}.")


def check_norm(name: str, p: object) -> None:
    """A norm is l_p with p in [1, inf]."""
    if isinstance(p, bool) or not hasattr(p, "__float__"):
        raise TypeError(f"{name} needs the norm p as a number from 1 to infinity and got {p!r}.")
    if not float(p) >= 1.0:  # also catches NaN
        refuse(f"{name} needs a norm with p from 1 to infinity and got p = {p}. Below 1 it is not a norm.")


def check_positive(name: str, parameter: str, value: object) -> None:
    """A finite number above zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} needs {parameter} as a number and got {value!r}.")
    if not 0.0 < value < float("inf"):
        refuse(f"{name} needs {parameter} > 0 and got {parameter} = {value}.")


def check_fraction(name: str, parameter: str, value: object) -> None:
    """A number from 0 to 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} needs {parameter} as a number from 0 to 1 and got {value!r}.")
    if not 0.0 <= value <= 1.0:
        refuse(f"{name} needs {parameter} from 0 to 1 and got {parameter} = {value}.")


def check_rows(rule: object, requirement: str, least: int, n: int) -> None:
    """The rule's requirement holds on n rows."""
    if n < least:
        refuse(
            f"{rule} needs at least {plural(least, 'row')} ({requirement}) and got {n}. "
            "Lower f, or wait for more workers."
        )


def fault_message(reasons: dict[int, str], n: int, f: int, names: Sequence[object], rule: object | None = None) -> str:
    """The sentence for more faults than the rule tolerates; `rule` is given where raising its f does not help."""
    rows = sorted(reasons)
    kinds = sorted({reasons[row] for row in rows})
    what = shown(kinds[0]) if len(kinds) == 1 else "faulty (" + "; ".join(map(shown, kinds)) + ")"
    verb = "is" if len(rows) == 1 else "are"
    which = ("row " if len(rows) == 1 else "rows ") + listing(rows)
    named = [names[row] for row in rows if row < len(names)]
    whose = f"; workers {listing(named)}" if named else ""
    whom = "these workers" if len(rows) > 1 else "this worker"
    limit = f"f = {f}" if rule is None else f"{rule} tolerates {f or 'none'}"
    if 2 * len(rows) >= n:
        advice = f"Look at {whom}: more than half of the updates have to be sound."
    elif rule is None:
        advice = f"Raise f, or look at {whom}."
    else:
        advice = f"Look at {whom}, or take a rule that tolerates {len(rows)} of {n}, such as Comed()."
    return f"{len(rows)} of {n} updates {verb} {what} ({which}{whose}), and {limit}. {advice}"
