"""``uvx --from . mixtailor`` has no extras, and runs again with them."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from mixtailor.cli._uv import with_extras

WITHOUT_TYPER = "import sys; sys.modules['typer'] = None; from mixtailor.cli import main; sys.exit(main(sys.argv[1:]))"


def _run(tmp_path, arguments=("demo", "--scale", "0.1"), **environment):
    """The command line without typer, and in place of uv a program that writes down its arguments and exits with 3."""
    uv = tmp_path / "uv"
    uv.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\nexit 3\n')
    uv.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("UV")}
    given = {name: value.format(uv=uv) for name, value in environment.items()}
    call = [sys.executable, "-c", WITHOUT_TYPER, *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, env={**kept, **given})


@pytest.mark.skipif(os.name != "posix", reason="uv's stand-in is a shell script")
def test_uvx_runs_the_command_again_with_all_extras(tmp_path):
    """The same arguments, from where the package came; the exit code is that of the second run."""
    run = _run(tmp_path, UV="{uv}")
    *options, wanted, name, command, option, value = run.stdout.splitlines()
    assert (options, run.returncode) == (["tool", "run", "--from"], 3)
    assert wanted.startswith("mixtailor[all]") and wanted in run.stderr
    assert [name, command, option, value] == ["mixtailor", "demo", "--scale", "0.1"]


@pytest.mark.skipif(os.name != "posix", reason="uv's stand-in is a shell script")
@pytest.mark.parametrize("arguments", [(), ("--version",), ("demo", "-h"), ("rules",), ("bench", "--n", "20")])
def test_what_needs_no_torch_is_run_without_it(tmp_path, arguments):
    run = _run(tmp_path, arguments, UV="{uv}")
    assert run.stdout.splitlines()[3].startswith("mixtailor[cli]") and run.returncode == 3


@pytest.mark.parametrize(
    "environment",
    [{}, {"UV": "{uv}", "MIXTAILOR_WITH_EXTRAS": "1"}, {"UV": "{uv}", "UV_RUN_RECURSION_DEPTH": "1"}, {"UV": "/no/uv"}],
    ids=["no uv", "second run", "uv run", "uv is gone"],
)
def test_elsewhere_the_missing_package_is_named(tmp_path, environment):
    """Without uv, in the second run (no endless loop), and in an environment that belongs to a project."""
    run = _run(tmp_path, **environment)
    assert run.returncode == 1 and run.stdout == ""
    assert run.stderr.endswith('The command line needs `typer`. Install it with: pip install "mixtailor[cli]"\n')


@pytest.mark.parametrize(
    ("origin", "wanted"),
    [
        (None, "mixtailor[all]==1.2"),
        ({"url": "file:///a/clone", "dir_info": {}}, "mixtailor[all] @ file:///a/clone"),
        (
            {"url": "https://host/mixtailor", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
            "mixtailor[all] @ git+https://host/mixtailor@abc",
        ),
    ],
)
def test_the_package_comes_from_where_it_came_before(origin, wanted):
    text = None if origin is None else json.dumps(origin)
    assert with_extras(SimpleNamespace(version="1.2", read_text=lambda _name: text), "all") == wanted
