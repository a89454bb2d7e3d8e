"""Four replicas of a torchft training: one silently corrupt, one killed, one that joins again.

`python examples/torchft/train.py`. With `--mean`, torchft's own average, and nobody is killed: the replicas that are
left would end with an AssertionError (torchft 0.2.0, gloo). Needs `pip install ".[torchft]"` at the root of a
checkout.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn

from torchft.coordination import LighthouseServer

REPLICA = Path(__file__).parent / "replica.py"
NAMES = ["ann", "bob", "cyn", "dan"]
CORRUPT, KILLED = "cyn", "dan"


class Replica:
    """A replica as a process of its own, and the steps that it has committed so far."""

    def __init__(self, name: str, address: str, options: list[str]) -> None:
        self.name = name
        command = [sys.executable, str(REPLICA), name, address, *options]
        command += ["--corrupt"] if name == CORRUPT else []
        self._log = tempfile.TemporaryFile(mode="w+", errors="replace")  # noqa: SIM115  # open as long as the process
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._log, text=True)
        self.steps: list[dict[str, float]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):
                self.steps.append(json.loads(line))

    def until(self, count: int, n: int) -> None:
        """Wait until so many steps are committed, the last of them with n replicas."""
        while len(self.steps) < count or self.steps[-1]["n"] != n:
            if self.process.poll() is not None:
                self._failed("ended early")
            time.sleep(0.01)

    def go(self) -> None:
        """Let a replica begin that waits."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self, seconds: float, last: int) -> None:
        """Wait until it has ended, having committed the last step."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._failed(f"did not end within {seconds:.0f} seconds")
        self._reader.join()
        if not self.steps or self.steps[-1]["step"] < last:
            self._failed(f"ended early, with code {code}")

    def _failed(self, how: str) -> NoReturn:
        self._log.seek(0)
        last = "".join(self._log.readlines()[-20:])
        raise RuntimeError(f"{self.name} {how}, after {len(self.steps)} steps. Its last lines:\n{last}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mean", action="store_true", help="torchft's own average")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    # Training ends when all four have made a step together: a replica that joins late still meets the others.
    given = ["--steps", str(options.steps), "--together", str(len(NAMES)), *(["--mean"] if options.mean else [])]
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=3, join_timeout_ms=60000, heartbeat_timeout_ms=5000)
    replicas = {name: Replica(name, lighthouse.address(), given) for name in NAMES}
    spare = Replica(KILLED, lighthouse.address(), [*given, "--wait"])
    try:
        if not options.mean:
            replicas[KILLED].until(20, len(NAMES))
            replicas[KILLED].process.kill()
            replicas[NAMES[0]].until(20, len(NAMES) - 1)  # the others go on without it
            spare.go()
            replicas[f"{KILLED}, again"] = spare
        for name, replica in replicas.items():
            if name != KILLED or options.mean:
                replica.end(300, options.steps - 1)
    finally:
        for replica in [*replicas.values(), spare]:
            replica.process.kill()
            replica.process.wait()
        lighthouse.shutdown()
    if options.json:
        print(json.dumps({name: replica.steps for name, replica in replicas.items()}))
        return
    for name, replica in replicas.items():
        first, last, sizes = replica.steps[0], replica.steps[-1], sorted({step["n"] for step in replica.steps})
        print(
            f"{name}: steps {first['step']} to {last['step']}, loss {first['loss']:.3f} to {last['loss']:.3g}, with "
            f"{' and '.join(map(str, sizes))} replicas, model {last['model']}"
        )


if __name__ == "__main__":
    main()
