"""What the functions of this folder ask of their numbers, beyond what `mixtailor._checks` asks already."""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_count, check_f, check_rows, refuse

__all__ = ["Floats", "an_array", "at_least", "finite", "krum_rows", "more_than", "probabilities_for"]

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


def finite(who: str, name: str, value: object) -> float:
    """``value`` as a finite float."""
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"{who} needs {name} as a number and got {value!r}.")
    number = float(value)
    if not math.isfinite(number):
        refuse(f"{who} needs {name} as a finite number and got {name} = {number}.")
    return number


def at_least(who: str, name: str, value: object, least: float) -> float:
    """``value`` as a finite float, where it is not below ``least``."""
    number = finite(who, name, value)
    if number < least:
        refuse(f"{who} needs {name} >= {least:g} and got {name} = {number:g}.")
    return number


def more_than(who: str, name: str, value: object, bound: float) -> float:
    """``value`` as a finite float, where it is above ``bound``."""
    number = finite(who, name, value)
    if number <= bound:
        refuse(f"{who} needs {name} > {bound:g} and got {name} = {number:g}.")
    return number


def krum_rows(who: str, n: int, f: int) -> None:
    """Krum's own requirement, which is also what keeps n - 2f - 2 positive."""
    check_f(who, f)
    check_count(who, "n", n)
    check_rows(who, "n >= 2f + 3", 2 * f + 3, n)


def an_array(who: str, name: str, values: ArrayLike, ndim: int) -> Floats:
    """``values`` as a finite float64 array with ``ndim`` axes and something along each."""
    raw: np.ndarray[Any, np.dtype[Any]] = np.asarray(values)
    if raw.dtype.kind not in "iuf":
        raise TypeError(f"{who} needs {name} as real numbers and got an array of dtype {raw.dtype}.")
    if raw.ndim != ndim or 0 in raw.shape:
        axes = "axis" if ndim == 1 else "axes"
        refuse(f"{who} needs {name} with {ndim} {axes} and something along each, and got the shape {raw.shape}.")
    array = raw.astype(np.float64)
    broken = int(np.count_nonzero(~np.isfinite(array)))
    if broken:
        refuse(f"{who} needs {name} as finite numbers, and {broken} of {array.size} are not.")
    return array


def probabilities_for(who: str, count: int, probabilities: ArrayLike | None) -> Floats:
    """The probabilities of ``count`` rules, uniform where none are given."""
    if probabilities is None:
        return np.full(count, 1.0 / count)
    shares = an_array(who, "probabilities", probabilities, 1)
    if shares.size != count:
        refuse(f"{who} needs one probability for each of the {count} rules and got {shares.size}.")
    total = float(shares.sum())
    if shares.min() < 0.0 or abs(total - 1.0) > 1e-9:
        refuse(
            f"{who} needs probabilities that are not negative and sum to 1; the least is {shares.min():g} "
            f"and the sum {total:.12g}. Divide them by their sum."
        )
    scaled: Floats = shares / total
    return scaled
