"""Running statistics of a model, such as BatchNorm's: measured by workers, not learnt by steps."""

import re
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Array
from mixtailor.storage.kinds import Unfit

__all__ = ["STATISTICS", "arrays_by_role", "by_order", "check_statistics", "from_order", "statistics_among"]

# The names that torch and Keras give them, the last part of a parameter's name.
STATISTICS = ("running_mean", "running_var", "moving_mean", "moving_variance")


def check_statistics(owner: str, names: object) -> None:
    """Refuse what is no collection of names."""
    if isinstance(names, str) or not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        refuse(f"{owner} needs statistics= as a collection of names, such as ['running_var'], and got {names!r}.")


def statistics_among(floats: Sequence[str], names: Collection[str]) -> list[str]:
    """Which of these arrays are statistics, by the last part of their name. A model is not made of statistics alone.

    Examples
    --------
    >>> statistics_among(["0.weight", "0.running_var", "norm/moving_mean"], STATISTICS)
    ['0.running_var', 'norm/moving_mean']
    >>> statistics_among(["running_var"], STATISTICS)
    []
    """
    found = [name for name in floats if re.split(r"[./]", str(name))[-1] in names]
    return found if len(found) < len(floats) else []


def arrays_by_role(real: Mapping[str, bool], names: Collection[str]) -> tuple[list[str], list[str], list[str]]:
    """Arrays that rules work on, those of whole numbers and truth values, and statistics of these names.

    Examples
    --------
    >>> arrays_by_role({"0.weight": True, "0.running_var": True, "0.num_batches": False}, STATISTICS)
    (['0.weight'], ['0.num_batches'], ['0.running_var'])
    """
    floats = [name for name, is_real in real.items() if is_real]
    if not floats:
        refuse(f"The model needs at least one array of real numbers and has {len(real)} arrays without any.")
    apart = statistics_among(floats, names)
    return [name for name in floats if name not in apart], [name for name in real if not real[name]], apart


def by_order(values: Array, name: str) -> Array:
    """Finite float32 or float64 as integers in the same order, of which an inbox takes the lower median.

    Examples
    --------
    >>> places = by_order(np.array([-2.5, -0.0, 1e-45, 7.0], np.float32), "running_mean")
    >>> bool((np.diff(places) > 0).all()), from_order(places)
    (True, array([-2.5e+00, -0.0e+00,  1.4e-45,  7.0e+00], dtype=float32))
    """
    if not np.isfinite(values).all():
        raise Unfit(f"not finite ({name})")
    return _mirrored(values.view(f"i{values.itemsize}"))


def from_order(places: Array) -> Array:
    """The numbers that `by_order` was given."""
    return _mirrored(places).view(f"f{places.itemsize}")


def _mirrored(bits: Array) -> Array:
    """Of negative floats, the larger have the smaller bits: these are turned around, and back by a second call."""
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)
