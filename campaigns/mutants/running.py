"""One collection of the tests, and a forked child for each fault."""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from campaigns.mutants.planting import Functions, functions, plant
from campaigns.mutants.sites import Mutant, mutants

FOLDERS = ("rules", "mixing", "preaggregation")
SLOW = 6.0  # tests that take longer, by the processor, are left out: they kill nothing that others do not
MOST = 25.0  # seconds of tests, by what they took without a fault, that a mutant is given
PATIENCE = 180.0  # seconds after which a child that waits for ever is killed


def all_mutants(root: Path) -> list[Mutant]:
    """Every fault of the three packages."""
    found = []
    for folder in FOLDERS:
        for path in sorted((root / "src" / "mixtailor" / folder).rglob("*.py")):
            if path.name != "__init__.py":
                found += mutants(root, path.relative_to(root).as_posix())
    return found


class Campaign:
    """A plugin of pytest that runs the collected tests once for each fault."""

    def __init__(self, root: Path, wanted: Sequence[Mutant], results: Path, deadline: float) -> None:
        self.root, self.wanted, self.results, self.deadline = root, wanted, results, deadline
        self.failed = False
        self.calls: dict[str, set[tuple[str, str]]] = {}
        self.took: dict[str, float] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self) -> None:
        import hypothesis

        # A found counterexample is enough: shrinking it would take most of the time.
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutants", derandomize=True, deadline=None, phases=phases, max_examples=40, database=None
        )
        hypothesis.settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.failed = self.failed or report.failed

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = self._repeated(self._baseline(session))
        loaded = functions(self.root / "src")
        with self.results.open("a", encoding="utf-8") as file:
            for count, mutant in enumerate(self.wanted):
                if time.time() > self.deadline:
                    break
                chosen = self._chosen(mutant, items)
                verdict, tests = self._tried(mutant, chosen, loaded)
                file.write(json.dumps({**asdict(mutant), "verdict": verdict, "tests": tests}) + "\n")
                file.flush()
                if verdict != "killed":
                    print(f"[{count + 1}/{len(self.wanted)}] {verdict} ({tests} tests): {mutant}", flush=True)
        return True

    def _baseline(self, session: pytest.Session) -> list[pytest.Item]:
        """Run everything once: what passes, how long it takes, and which functions it calls."""
        kept = []
        prefix = str(self.root / "src" / "mixtailor")
        inside = tuple(f"{prefix}/{folder}/" for folder in FOLDERS)
        for place, item in enumerate(session.items):
            called: set[Any] = set()

            def watch(frame: FrameType, event: str, _: object, called: set[Any] = called) -> None:
                if event == "call":
                    called.add(frame.f_code)

            after = session.items[place + 1] if place + 1 < len(session.items) else None
            started = time.process_time()
            sys.setprofile(watch)
            try:
                self._run(item, after)
            finally:
                sys.setprofile(None)
            self.took[item.nodeid] = time.process_time() - started
            if self.failed:
                print(f"not used, since it fails without a fault: {item.nodeid}", flush=True)
            elif self.took[item.nodeid] <= SLOW:
                self.calls[item.nodeid] = {
                    (code.co_filename, code.co_qualname.split(".<locals>")[0])
                    for code in called
                    if code.co_filename.startswith(inside)
                }
                kept.append(item)
        print(f"{len(kept)} of {len(session.items)} tests, {sum(self.took.values()):.0f} s", flush=True)
        return kept

    def _run(self, item: pytest.Item, after: pytest.Item | None) -> bool:
        """Whether a test passes. It can be run again: a doctest, which a run empties of its names, gets them back."""
        self.failed = False
        names = getattr(getattr(item, "dtest", None), "globs", {})
        kept = dict(names)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        names.update(kept)
        return not self.failed

    def _all_pass(self, items: Sequence[pytest.Item], told: int | None = None) -> bool:
        """Run tests until one fails. Each that passed is told by a byte."""
        for place, item in enumerate(items):
            # A test that no longer ends is noticed; the signal ends the child. Time of the processor, not of the
            # clock: on a busy machine a slow child is no sign of a fault.
            signal.setitimer(signal.ITIMER_PROF, 5.0 + 6.0 * self.took[item.nodeid])
            if not self._run(item, items[place + 1] if place + 1 < len(items) else None):
                return False
            if told is not None:
                os.write(told, b".")
        return True

    def _repeated(self, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that pass again, in a child, without a fault: of the others a failure tells nothing."""
        kept, left = [], sorted(items, key=lambda item: self.took[item.nodeid])
        while left:
            reading, writing = os.pipe()
            child = os.fork()
            if not child:
                with _silence():
                    self._all_pass(left, writing)
                os._exit(0)
            os.close(writing)
            with open(reading, "rb") as file:
                passed = len(file.read())
            os.waitpid(child, 0)
            kept += left[:passed]
            for item in left[passed : passed + 1]:
                print(f"not used, since it fails when it is run again: {item.nodeid}", flush=True)
            left = left[passed + 1 :]
        return kept

    def _chosen(self, mutant: Mutant, items: Sequence[pytest.Item]) -> list[pytest.Item]:
        """The tests that call the function, quickest first, as many as there is time for."""
        filename = str(self.root / mutant.path)

        def reaches(called: set[tuple[str, str]]) -> bool:
            if not mutant.target:
                return (filename, mutant.inside) in called
            start = f"{mutant.inside}." if mutant.inside else ""
            return any(file == filename and name.startswith(start) for file, name in called)

        chosen = sorted((i for i in items if reaches(self.calls[i.nodeid])), key=lambda i: self.took[i.nodeid])
        kept, spent = [], 0.0
        for item in chosen:
            spent += self.took[item.nodeid]
            if spent > MOST:
                break
            kept.append(item)
        return kept

    def _tried(self, mutant: Mutant, items: Sequence[pytest.Item], loaded: Functions) -> tuple[str, int]:
        if not items:
            return "not called", 0
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os._exit(self._child(mutant, items, loaded))
        os.close(writing)
        try:
            # The end of the pipe is the end of the child.
            over = bool(select.select([reading], [], [], PATIENCE)[0])
            if not over:
                os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        finally:
            os.close(reading)
        if not over:
            return "killed", len(items)  # it hangs, and a suite that hangs is noticed
        return {0: "survived", 3: "not planted"}.get(status, "killed"), len(items)

    def _child(self, mutant: Mutant, items: Sequence[pytest.Item], loaded: Functions) -> int:
        with _silence():
            if not plant(self.root, mutant, loaded):
                return 3
            return 0 if self._all_pass(items) else 1
        return 1


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Neither words nor exceptions leave a child."""
    with contextlib.suppress(BaseException), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        yield


def chosen_mutants(root: Path, results: Path, seed: int, matching: str) -> list[Mutant]:
    """Those without a verdict, in an order that makes every part of it a fair sample."""
    found = [mutant for mutant in all_mutants(root) if matching in mutant.path]
    random.Random(seed).shuffle(found)
    known = {_identity(line) for line in verdicts(results)}
    return [mutant for mutant in found if _identity(asdict(mutant)) not in known]


def verdicts(results: Path) -> Iterator[dict[str, Any]]:
    """What was found so far, the last word on each mutant."""
    last: dict[tuple[object, ...], dict[str, Any]] = {}
    if results.exists():
        for line in results.read_text(encoding="utf-8").splitlines():
            found = json.loads(line)
            last[_identity(found)] = found
    return iter(last.values())


def _identity(found: dict[str, Any]) -> tuple[object, ...]:
    # Not by number or line: files change above the fault.
    return tuple(found[key] for key in ("path", "inside", "target", "kind", "before", "after", "nth"))
