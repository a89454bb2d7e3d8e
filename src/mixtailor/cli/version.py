"""``mixtailor version``."""

import platform

from mixtailor import __version__
from mixtailor.cli._output import Json, say, show_json

EXAMPLE = "mixtailor version --json"


def command(as_json: Json = False) -> None:
    """Print the versions of mixtailor, of Python and of the packages that results depend on."""
    from importlib.metadata import version  # the numbers alone: numba takes half a second to load

    versions = {
        "mixtailor": __version__,
        "python": platform.python_version(),
        "numpy": version("numpy"),
        "numba": version("numba"),
    }
    if as_json:
        show_json(versions)
        return
    say("\n".join(f"{name:<10} {number}" for name, number in versions.items()))
