"""No network at run time: what users do works with every socket but those of this machine forbidden."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# A child process in which names cannot be looked up and nobody but this machine can be connected to.
FORBID = """
import socket, sys

class Forbidden(RuntimeError):
    pass

def local(address):
    return not isinstance(address, tuple) or address[0] in ("127.0.0.1", "::1", "localhost")

class Guarded(socket.socket):
    def connect(self, address):
        if not local(address):
            raise Forbidden(f"connects to {address}")
        return super().connect(address)

    def connect_ex(self, address):
        if not local(address):
            raise Forbidden(f"connects to {address}")
        return super().connect_ex(address)

    def sendto(self, data, *rest):
        if not local(rest[-1]):
            raise Forbidden(f"sends to {rest[-1]}")
        return super().sendto(data, *rest)

def lookup(host, *rest, **more):
    if host not in (None, "", "127.0.0.1", "::1", "localhost", socket.gethostname()):
        raise Forbidden(f"looks up {host}")
    return found(host, *rest, **more)

found, socket.getaddrinfo = socket.getaddrinfo, lookup
socket.socket = Guarded
"""


def child(code: str, folder: Path, *, timeout: float = 300.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", FORBID + textwrap.dedent(code)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "MIXTAILOR_DATA": str(folder / "no data here")},
    )


def test_the_guard_guards(tmp_path: Path) -> None:
    """The yardstick: a connection to elsewhere and a look-up are stopped, one to this machine is not."""
    done = child(
        """
        import urllib.request
        for attempt in (
            lambda: socket.create_connection(("192.0.2.1", 80), 1),
            lambda: urllib.request.urlopen("http://example.org", timeout=1),
            lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)),
        ):
            try:
                attempt()
            except Forbidden as error:
                print("stopped", error)
        with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()):
            print("local is fine")
        """,
        tmp_path,
    )
    assert done.stdout.count("stopped") == 3 and "local is fine" in done.stdout, done.stderr


@pytest.mark.parametrize(
    "selection",
    [
        ["tests/rules/test_krum.py", "tests/rules/test_reputation.py", "tests/mixing/test_release.py"],
        ["tests/cli/test_aggregate.py"],
        ["tests/simulation/test_training.py", "-k", "account"],
    ],
    ids=["rules and draws", "files and the command line", "training"],
)
def test_tests_pass_without_a_network(selection: list[str], tmp_path: Path) -> None:
    """A part of the suite itself, from the rules to a training run, with sockets forbidden."""
    done = child(
        f"""
        import pytest
        sys.exit(pytest.main(["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", *{selection!r}]))
        """,
        ROOT,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "Forbidden" not in done.stdout + done.stderr


def test_an_import_opens_no_socket(tmp_path: Path) -> None:
    """Not even a local one: the package, the attackers, the theory, the command line."""
    done = child(
        """
        def none(*_, **__):
            raise Forbidden("opens a socket")
        Guarded.__init__ = none
        import mixtailor, mixtailor.attacks, mixtailor.theory, mixtailor.cli, mixtailor.simulation, mixtailor.report
        import numpy as np
        rule = mixtailor.MixTailor(mixtailor.paper_pool(2))
        print(rule(np.ones((12, 3))))
        """,
        tmp_path,
    )
    assert done.returncode == 0 and done.stdout.strip() == "[1. 1. 1.]", done.stderr


def test_data_sets_are_not_fetched_unless_asked(tmp_path: Path) -> None:
    """A data set that is not there is an error that says how to get it, and no request; asked for, there is one."""
    done = child(
        """
        from mixtailor.simulation import mnist
        try:
            mnist()
        except Forbidden:
            raise
        except Exception as error:
            print(type(error).__name__, error)
        """,
        tmp_path,
    )
    assert done.returncode == 0 and "MIXTAILOR_DOWNLOAD=1" in done.stdout, done.stdout + done.stderr
    asked = child("from mixtailor.simulation import mnist; mnist(download=True)", tmp_path)
    assert "Forbidden: looks up" in asked.stderr, asked.stderr
