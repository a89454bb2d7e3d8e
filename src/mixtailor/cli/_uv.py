"""Under ``uvx``, a command whose packages are missing is run again with all extras."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution

__all__ = ["again_with_extras"]

_ONCE = "MIXTAILOR_WITH_EXTRAS"


def again_with_extras(arguments: Sequence[str]) -> int | None:
    """Run the command again by uv with ``mixtailor[all]``, and return its exit code; None where uv did not start this.

    ``uvx --from . mixtailor demo`` makes an environment without extras, in which nobody can install them afterwards.
    """
    uv = os.environ.get("UV")  # uv sets it for the programs that it starts
    if not uv or {_ONCE, "UV_RUN_RECURSION_DEPTH"} & os.environ.keys():  # the latter: a project's own environment
        return None
    try:
        wanted = with_all(distribution("mixtailor"))
    except PackageNotFoundError:
        return None
    print(f"uv runs this again with all extras: {wanted}", file=sys.stderr)
    command = [uv, "tool", "run", "--from", wanted, "mixtailor", *arguments]
    try:
        return subprocess.call(command, env={**os.environ, _ONCE: "1"})
    except KeyboardInterrupt:
        return 130
    except OSError:
        return None


def with_all(installed: Distribution) -> str:
    """The requirement that installs the same package with all extras, from where it came."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if "vcs_info" in origin:
        return f"mixtailor[all] @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    return f"mixtailor[all] @ {origin['url']}" if origin else f"mixtailor[all]=={installed.version}"
