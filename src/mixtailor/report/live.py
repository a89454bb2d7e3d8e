"""`serve`: the page of a folder on this machine, drawn again whenever its files change."""

from __future__ import annotations

import contextlib
import html
import ipaddress
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from mixtailor._checks import refuse
from mixtailor.experiments.results import Results, run_folders
from mixtailor.report.page import rendered
from mixtailor.simulation.frames import FILE as FRAMES
from mixtailor.trackers.journal import FILE as JOURNAL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Live", "Server", "is_local"]

_VIEWERS = 16  # pages that may listen at once: each has a thread
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Live:
    """The page of a folder, made when it is asked for and kept until a file changes.

    Parameters
    ----------
    folder : path
        Of an experiment, of a single simulation, or of a server that keeps a journal. It may be empty so far.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not self.folder.is_dir():
            refuse(f"There is no folder {self.folder} to watch. Start the run first, or give the folder it writes to.")
        self._mutex = threading.Lock()
        self._made: tuple[Any, bytes] | None = None

    def signature(self) -> tuple[tuple[str, int, int], ...]:
        """Names, sizes and times of all files that the page is made from: equal while nothing changes."""
        files = [
            self.folder / name for name in ("experiment.json", "metrics.jsonl", "simulation.json", FRAMES, JOURNAL)
        ]
        with contextlib.suppress(ValueError, OSError):
            for run in run_folders(self.folder):
                files += [run / name for name in ("metrics.jsonl", "summary.json", "error.txt", FRAMES)]
        found = []
        for path in files:
            with contextlib.suppress(OSError):
                known = path.stat()
                found.append((str(path), known.st_size, known.st_mtime_ns))
        return tuple(found)

    def page(self) -> bytes:
        """The page as it is now. A folder that cannot be shown yet gives a page that says why and waits."""
        signature = self.signature()
        with self._mutex:
            if self._made is None or self._made[0] != signature:
                try:
                    text = rendered(Results.load(self.folder), live=True)
                except (ValueError, OSError) as error:
                    text = _waiting(str(error))
                self._made = (signature, text.encode())
            return self._made[1]


class Server:
    """Serves a `Live` page until `close`. There are two addresses, the page and its events, and nothing else.

    Parameters
    ----------
    folder : path
    host : str
        The address to listen at; that of this machine alone by default.
    port : int
        0 takes a free one.
    interval : float
        Seconds between two looks at the files.

    Notes
    -----
    The standard library's server is enough: two fixed replies, no file is ever served by its path, and nothing has to
    be installed. A request whose Host header names another machine is refused, so that a web page elsewhere cannot
    read this one by pointing its own name here (DNS rebinding).
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, host: str = "127.0.0.1", port: int = 8765, interval: float = 1.0
    ) -> None:
        shared: dict[str, Any] = {"live": Live(folder), "interval": interval}
        shared |= {"viewers": threading.Semaphore(_VIEWERS), "closing": threading.Event()}
        self._closing: threading.Event = shared["closing"]
        handler = type("Handler", (_Handler,), shared)
        try:
            self._server = _Threads((host, port), handler)
        except OSError as error:
            why = error.strerror or str(error)
            refuse(f"Port {port} of {host} cannot be used: {why}. Give another with --port, or 0 for any that is free.")
        self.host, self.port = host, int(self._server.server_address[1])
        handler.names = _names(host, self.port)  # type: ignore[attr-defined]  # of the class made above

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{'localhost' if is_local(self.host) else self.host}:{self.port}/"

    def run(self) -> None:
        """Serve until `close` is called from elsewhere, or the user interrupts."""
        self._server.serve_forever(poll_interval=0.2)

    def close(self) -> None:
        """Stop serving, and let go of all listeners."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Threads(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # on Windows it would let two programs have one port


class _Handler(BaseHTTPRequestHandler):
    """Two addresses, each after a look at the Host header."""

    live: ClassVar[Live]
    interval: ClassVar[float]
    viewers: ClassVar[threading.Semaphore]
    names: ClassVar[frozenset[str]]
    closing: ClassVar[threading.Event]
    server_version, sys_version = "mixtailor", ""
    timeout = 30

    def do_GET(self) -> None:
        known: dict[str, Callable[[], None]] = {"/": self._page, "/events": self._events}
        if self.headers.get("Host", "").lower() not in self.names:
            self._plain(421, "This address is not served here.")
        elif self.path not in known:
            self._plain(404, "There is nothing here. The page is at /.")
        else:
            with contextlib.suppress(ConnectionError, TimeoutError):  # the reader went away
                known[self.path]()

    def _page(self) -> None:
        self._send(200, "text/html; charset=utf-8", self.live.page())

    def _events(self) -> None:
        if not self.viewers.acquire(blocking=False):
            self._plain(503, f"{_VIEWERS} pages are listening already. Close one.")
            return
        try:
            self.send_response(200)
            self._headers({"Content-Type": "text/event-stream; charset=utf-8", "Connection": "close"})
            for part in self._changes():
                self.wfile.write(part)
                self.wfile.flush()
        finally:
            self.viewers.release()

    def _changes(self) -> Iterator[bytes]:
        """An event for each change, and a sign of life in between, which also finds out who went away."""
        seen, last = self.live.signature(), time.monotonic()
        yield b"retry: 2000\n\n"
        while not self.closing.wait(self.interval):
            now = self.live.signature()
            if now != seen:
                seen, last = now, time.monotonic()
                yield b"event: changed\ndata: files\n\n"
            elif time.monotonic() - last > 10:
                last = time.monotonic()
                yield b": still here\n\n"

    def _plain(self, code: int, text: str) -> None:
        self._send(code, "text/plain; charset=utf-8", text.encode())

    def _send(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self._headers({"Content-Type": kind, "Content-Length": str(len(body))})
        self.wfile.write(body)

    def _headers(self, more: dict[str, str]) -> None:
        for name, value in {**_HEADERS, **more}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Silence: a request each second is no news."""


def _names(host: str, port: int) -> frozenset[str]:
    """What a Host header may say: this machine's names for itself, and the address that was asked for."""
    own = {"localhost", "127.0.0.1", "[::1]"} if is_local(host) else set()
    if host not in ("", "0.0.0.0", "::"):
        own.add(f"[{host}]" if ":" in host else host.lower())
    else:
        import socket

        own |= {"localhost", "127.0.0.1", socket.gethostname().lower(), socket.getfqdn().lower()}
    return frozenset({f"{name}:{port}" for name in own} | (own if port == 80 else set()))


def is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _waiting(why: str) -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        '<meta http-equiv="refresh" content="2"><link rel="icon" href="data:,">'
        '<meta name="color-scheme" content="light dark"><title>Waiting</title>'
        f"<main><h1>Waiting</h1><p>There is nothing to show yet. {html.escape(why)}</p></main></html>"
    )
