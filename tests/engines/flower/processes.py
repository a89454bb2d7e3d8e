"""Real Flower processes for a test: started in their own sessions, awaited for a bounded time, ended by their ids."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "flower"
BIN = Path(sys.executable).parent
SECONDS = 900.0

# Nothing leaves the machine, nothing is installed, and one thread a process is enough for digits.
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    # Ray takes whoever is slow for dead.
    "RAY_worker_register_timeout_seconds": "600",
    "RAY_gcs_server_request_timeout_seconds": "600",
    "RAY_health_check_timeout_ms": "60000",
    "RAY_health_check_failure_threshold": "30",
    "PYTHONUNBUFFERED": "1",
    "NO_COLOR": "1",
}


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Flower:
    """A SuperLink, what connects to it, and the app to run on it, all under one folder."""

    def __init__(self, folder):
        self.folder = folder
        self.started = []
        self.port = free_port()
        self.environment = {**os.environ, **QUIET, "FLWR_HOME": str(folder / "home")}
        self.environment["PATH"] = f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}"
        (folder / "home").mkdir()
        connection = f'[superlink]\ndefault = "here"\n[superlink.here]\naddress = "127.0.0.1:{self.port}"\n'
        (folder / "home" / "config.toml").write_text(connection + "insecure = true\n")
        self.app = folder / "app"  # a copy: building an app must not leave anything in the example
        shutil.copytree(EXAMPLE, self.app, ignore=shutil.ignore_patterns("__pycache__"))

    def start(self, program, *arguments):
        """Start a program in a session of its own, so that its children can be ended with it."""
        log = self.folder / f"{len(self.started)}-{program}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                [BIN / program, *map(str, arguments)],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def superlink(self, *options):
        link = self.start("flower-superlink", "--insecure", "--host", "127.0.0.1", "--port", self.port, *options)
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            assert link.poll() is None, self.said()
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
                    if answer.status == 200:
                        return link
            except (urllib.error.URLError, TimeoutError, ConnectionError):
                time.sleep(0.2)
        raise AssertionError(f"no SuperLink within {SECONDS:g} s\n{self.said()}")

    def supernode(self, partition, partitions):
        config = f"partition-id={partition} num-partitions={partitions}"
        address = f"127.0.0.1:{self.port}"
        return self.start(
            "flower-supernode", "--insecure", "--superlink", address, "--port", free_port(), "--node-config", config
        )

    def run(self, *arguments, watch=None):
        """`flwr run` to its end, line by line; `watch` sees each line as it comes."""
        process = subprocess.Popen(
            [BIN / "flwr", "run", self.app, "here", "--stream", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=self.environment,
            cwd=self.folder,
            start_new_session=True,
        )
        self.started.append(process)
        guard = threading.Timer(SECONDS, process.kill)
        guard.start()
        lines = []
        try:
            for line in process.stdout:
                lines.append(line)
                if watch is not None:
                    watch(line)
            process.wait(60)
        finally:
            guard.cancel()
            process.stdout.close()
        assert process.returncode == 0, "".join(lines) + self.said()
        return "".join(lines)

    def kill(self, process):
        """End a process, and what it started, without a chance to say goodbye."""
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # the leader of a session of ours: its id is the group's
        process.wait(60)

    def said(self):
        """The ends of all logs, for a test that fails."""
        return "".join(f"\n--- {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.folder.glob("*.log")))


@contextmanager
def flower(folder):
    """Flower's processes, ended whatever happens: politely first, so that they end what they started elsewhere."""
    processes = Flower(folder)
    try:
        yield processes
    finally:
        for process in reversed(processes.started):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 20
        for process in processes.started:
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, deadline - time.monotonic()))
        for process in processes.started:
            processes.kill(process)
