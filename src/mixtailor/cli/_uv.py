"""Under ``uvx``, a command whose packages are missing is run again with the extras that it needs."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution

__all__ = ["again_with_extras"]

_ONCE = "MIXTAILOR_WITH_EXTRAS"
# Commands that neither train nor draw. All extras contain torch, of which uv may download gigabytes.
_LIGHT = {"rules", "attacks", "version", "warm", "bench"}
_QUESTIONS = {"-h", "--help", "--version", "--show-completion", "--install-completion"}


def again_with_extras(arguments: Sequence[str]) -> int | None:
    """Run the command again by uv with extras, and return its exit code; None where uv did not start this.

    ``uvx --from . mixtailor demo`` makes an environment without extras, in which nobody can install them afterwards.
    """
    uv = os.environ.get("UV")  # uv sets it for the programs that it starts
    if not uv or {_ONCE, "UV_RUN_RECURSION_DEPTH"} & os.environ.keys():  # the latter: a project's own environment
        return None
    try:
        wanted = with_extras(distribution("mixtailor"), extras_for(arguments))
    except PackageNotFoundError:
        return None
    print(f"uv runs this again with the extras that it needs: {wanted}", file=sys.stderr)
    command = [uv, "tool", "run", "--from", wanted, "mixtailor", *arguments]
    try:
        return subprocess.call(command, env={**os.environ, _ONCE: "1"})
    except KeyboardInterrupt:
        return 130
    except OSError:
        return None


def extras_for(arguments: Sequence[str]) -> str:
    """``cli`` for help and for commands that neither train nor draw, ``all`` for the others.

    Examples
    --------
    >>> extras_for(["demo", "--help"]), extras_for(["rules", "--json"]), extras_for(["demo"])
    ('cli', 'cli', 'all')
    """
    light = not arguments or arguments[0] in _LIGHT or not _QUESTIONS.isdisjoint(arguments)
    return "cli" if light else "all"


def with_extras(installed: Distribution, extras: str) -> str:
    """The requirement that installs the same package with extras, from where it came."""
    origin = json.loads(installed.read_text("direct_url.json") or "{}")
    if "vcs_info" in origin:
        return f"mixtailor[{extras}] @ {origin['vcs_info']['vcs']}+{origin['url']}@{origin['vcs_info']['commit_id']}"
    return f"mixtailor[{extras}] @ {origin['url']}" if origin else f"mixtailor[{extras}]=={installed.version}"
