"""The command line: one file per command. `main` is what ``mixtailor`` and ``python -m mixtailor`` call."""

import os
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0, 1 for an error, 2 for wrong usage, 130 for Ctrl-C.

    Parameters
    ----------
    arguments : sequence of str, optional
        What follows the program's name; `sys.argv` by default.
    """
    # torch's threads would wait for work by spinning on the processors that rules need. It reads this when it loads.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from mixtailor.cli import _app  # typer and rich load here, and not with the library
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        from mixtailor._checks import MissingPackageError
        from mixtailor.cli._uv import again_with_extras

        if error.name not in ("typer", "rich"):
            raise
        again = again_with_extras(sys.argv[1:] if arguments is None else arguments)
        if again is not None:
            return again
        print(MissingPackageError("The command line", error.name, "cli"), file=sys.stderr)
        return 1
    return _app.run(arguments)
