"""Names for the small arrays that travel between the packages."""

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "Flags", "Floats", "Integers"]

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Floats: TypeAlias = npt.NDArray[np.float64]
Integers: TypeAlias = npt.NDArray[np.intp]
Flags: TypeAlias = npt.NDArray[np.bool_]
