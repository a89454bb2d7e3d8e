"""What numba itself takes: a function that does nothing, cached on disk."""

import numba


@numba.njit(cache=True)  # type: ignore[misc]  # numba ships no types
def empty() -> None:
    """Do nothing."""
