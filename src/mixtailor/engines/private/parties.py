"""Three parties on this machine: for tests, simulations and a first look."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, NoReturn, Self, final

import numpy as np

from mixtailor._checks import listing, refuse, shown
from mixtailor._types import Floats
from mixtailor.engines.private.encoding import Encoding
from mixtailor.engines.private.programs import check_private
from mixtailor.engines.private.shares import PARTIES, join, split
from mixtailor.mixing.registry import make_rule
from mixtailor.rules.promises import NEVER, check_tolerates, rows_for

__all__ = ["LocalParties", "PartyError", "PrivateAggregation"]


class PartyError(RuntimeError):
    """A computing party ended or did not reply. Nothing was opened; the round can be repeated with fresh shares."""


@dataclass(frozen=True)
class PrivateAggregation:
    """The result of a private round.

    Attributes
    ----------
    update : array
        The aggregated update.
    rule : str
        The rule that the parties drew.
    clients : tuple of str
        Those whose updates were aggregated. Whom a rule selected among them, nobody knows.
    removed : dict
        Who was removed, and why.
    seconds : float
        How long the parties computed.
    """

    update: Floats
    rule: str
    clients: tuple[str, ...]
    removed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@final
class LocalParties:
    """Three party processes on the loopback interface, and their coordinator.

    What one machine computes hides nothing from that machine. In production each party is a `Party` in a program of its
    own operator.

    Parameters
    ----------
    encoding : Encoding
        The radius and the number of coordinates.
    rule : str
        A rule as text, for example ``"multi_krum"`` or ``"mixtailor(multi_krum, comed)"``.
    f : int, optional
        How many updates may be Byzantine.
    opened : bool
        Whether the parties may open the inner products between updates.
    timeout : float
        Seconds after which a party that does not reply is given up.
    python : str, optional
        The interpreter of the environment that has SPU; this one by default.
    certificates : tuple of str, optional
        Paths of a certificate, its key and the authority, for messages between the parties over TLS.
    """

    def __init__(
        self,
        encoding: Encoding,
        rule: str,
        *,
        f: int | None = None,
        opened: bool = False,
        timeout: float = 60.0,
        python: str | None = None,
        certificates: tuple[str, str, str] | None = None,
    ) -> None:
        made = make_rule(rule, f=f)
        check_private(made, opened=opened)
        if f is not None and rows_for(made, f) == NEVER:
            check_tolerates(made, f, NEVER)
        self.encoding, self.timeout = encoding, timeout
        self._sent: set[str] = set()
        addresses = ",".join(f"127.0.0.1:{port}" for port in _free_ports(PARTIES))
        command = [python or sys.executable, "-m", "mixtailor.engines.private", "--addresses", addresses]
        command += ["--radius", repr(float(encoding.radius)), "--d", str(encoding.d), "--rule", rule]
        command += (
            ["--timeout", str(timeout)] + (["--opened"] if opened else []) + (["--f", str(f)] if f is not None else [])
        )
        command += ["--certificates", *certificates] if certificates is not None else []
        self._replies = ThreadPoolExecutor(PARTIES)
        self._logs = [tempfile.TemporaryFile() for _ in range(PARTIES)]  # noqa: SIM115  # closed with the parties
        self.processes = [
            subprocess.Popen(
                [*command, "--rank", str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._logs[rank],
            )
            for rank in range(PARTIES)
        ]
        try:
            self._asked(self.timeout + 60.0)  # which say that they are ready
        except BaseException:
            self.close()
            raise

    def send(self, client: str, payloads: Sequence[bytes]) -> None:
        """Bring a client's three payloads to the parties; a second one of a round is refused."""
        if client in self._sent:
            refuse(f"{shown(client)} has sent shares for this round already.")
        self._sent.add(client)
        for process, payload in zip(self.processes, payloads, strict=True):
            self._write(process, json.dumps({"put": client, "bytes": len(payload)}).encode() + b"\n" + payload)

    def aggregate(self) -> PrivateAggregation:
        """Let the parties compute, and put the result together."""
        self._sent.clear()
        for process in self.processes:
            self._write(process, b'{"aggregate": true}\n')
        replies = self._asked(2 * self.timeout + 10.0)
        told = [message for message, _ in replies]
        if any({**message, "seconds": 0} != {**told[0], "seconds": 0} for message in told):
            raise PartyError("The parties report different rounds: one of them does not follow the protocol.")
        values = join([np.frombuffer(content, np.uint64) for _, content in replies])
        return PrivateAggregation(
            self.encoding.decode(values, told[0]["divisor"]),
            told[0]["rule"],
            tuple(told[0]["clients"]),
            dict(told[0]["removed"]),
            max(message["seconds"] for message in told),
        )

    def __call__(self, updates: Any, workers: Sequence[str] | None = None) -> Floats:
        """Share the updates, an (n, d) matrix or a mapping of clients to updates, and aggregate them."""
        if not isinstance(updates, Mapping):
            names = [f"client-{place}" for place in range(len(updates))] if workers is None else list(workers)
            if len(set(map(str, names))) < len(names):
                refuse("Three parties need workers= with a different name for each update.")
            updates = dict(zip(names, updates, strict=True))
        for client, update in updates.items():
            self.send(str(client), split(self.encoding.encode(update)))
        return self.aggregate().update

    def _write(self, process: "subprocess.Popen[bytes]", content: bytes) -> None:
        assert process.stdin is not None
        try:
            process.stdin.write(content)
            process.stdin.flush()
        except OSError:
            self._ended()

    def _asked(self, seconds: float) -> list[tuple[dict[str, Any], bytes]]:
        """The next reply of each party."""
        futures = [self._replies.submit(_read, process) for process in self.processes]
        try:
            replies = [future.result(seconds) for future in futures]
        except TimeoutError:
            self.close()
            raise PartyError(f"A party did not reply within {seconds:.0f} seconds.") from None
        if any(reply is None for reply in replies):
            self._ended()
        found = [reply for reply in replies if reply is not None]
        errors = {message["error"] for message, _ in found if "error" in message}
        if errors:
            refuse("; ".join(sorted(errors)))
        return found

    def _ended(self) -> NoReturn:
        ended: list[int] = []
        for _ in range(50):  # a process that ends closes its pipes somewhat earlier
            ended = [rank for rank, process in enumerate(self.processes) if process.poll() is not None]
            if ended:
                break
            time.sleep(0.1)
        words = self._last_words(ended[0]) if ended else ""
        self.close()
        raise PartyError(f"Computing party {listing(ended)} has ended{words}. No update was opened. Start them again.")

    def _last_words(self, rank: int) -> str:
        self._logs[rank].seek(0)
        lines = self._logs[rank].read().decode(errors="replace").strip().splitlines()
        return f" ({lines[-1].strip()})" if lines else ""

    def close(self) -> None:
        """End the parties."""
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not written yet has nobody to read it
                        pipe.close()
        for log in self._logs:
            log.close()
        self._replies.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _read(process: "subprocess.Popen[bytes]") -> tuple[dict[str, Any], bytes] | None:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.endswith(b"\n"):
        return None
    message = json.loads(line)
    size = int(message.pop("bytes", 0))
    content = process.stdout.read(size)
    return (message, content) if len(content) == size else None


def _free_ports(count: int) -> list[int]:
    found = [socket.socket() for _ in range(count)]
    try:
        for each in found:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in found]
    finally:
        for each in found:
            each.close()
