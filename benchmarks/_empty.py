"""What numba itself takes: a function that does nothing, cached on disk."""

import numba


@numba.njit(cache=True)
def empty() -> None:
    """Do nothing."""
