"""`Inbox`: updates that arrive when they arrive, one for each worker, and a rule for them once there are enough."""

import hashlib
import json
import math
import operator
import re
import struct
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack, final

import numpy as np

from mixtailor._checks import check_count, plural, refuse, shown
from mixtailor._files import atomic_write, read_bounded
from mixtailor.memory.keeping import Keeping
from mixtailor.memory.kept_updates import opened, running_mean, write
from mixtailor.mixing.sources import trails_of
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.part import walk
from mixtailor.rules.plain import Plain, as_rule
from mixtailor.rules.request import RequestKeywords
from mixtailor.rules.weighting import check_weighted

__all__ = ["Fresh", "FutureError", "Inbox", "Kept", "LateError", "RefusedError", "ReplayedError", "UnknownWorkerError"]

MOST_WORKERS = 1 << 16
_INDEX, _MEMORY, _MOST_BYTES = "inbox.json", "memory.npz", 256 << 20
_OWN = re.compile(r"[0-9a-f]{32}-[0-9]{1,20}\.np[yz]")  # the files of updates


class RefusedError(ValueError):
    """An update that an inbox does not take."""


class LateError(RefusedError):
    """An update of a model that is older than the inbox accepts."""


class ReplayedError(RefusedError):
    """A second update of a worker for the same model, or one for an older model than its last."""


class FutureError(RefusedError):
    """An update of a model that does not exist yet."""


class UnknownWorkerError(RefusedError):
    """An update of a worker that is not expected."""


@final
@dataclass(frozen=True)
class Fresh:
    """Aggregate the updates that were not used yet, once there are k of them.

    At most one is of each worker, so that f Byzantine workers have at most f of them, however fast they are.

    Examples
    --------
    >>> Fresh(10)
    Fresh(k=10)
    """

    k: int

    def __post_init__(self) -> None:
        check_count("Fresh", "k", self.k)

    def chosen(self, rows: "Mapping[str, _Row]") -> list[str]:
        """Whose updates to use; none where there are too few."""
        new = [worker for worker, row in rows.items() if row.fresh]
        return new if len(new) >= self.k else []


@final
@dataclass(frozen=True)
class Kept:
    """Aggregate the last update of every worker, once k of them are new.

    f then counts all workers and not those of a sample: a sample with a Byzantine majority changes some updates of
    many.

    Examples
    --------
    >>> Kept(10)
    Kept(k=10)
    """

    k: int

    def __post_init__(self) -> None:
        check_count("Kept", "k", self.k)

    def chosen(self, rows: "Mapping[str, _Row]") -> list[str]:
        """Whose updates to use; none where there are too few new ones."""
        return list(rows) if sum(row.fresh for row in rows.values()) >= self.k else []


@dataclass(frozen=True)
class _Row:
    """The last update of a worker, or the file that it is in."""

    version: int
    update: Any
    fresh: bool = True


@final
class Inbox:
    r"""The last update of each worker, with the version of the model that it was computed from, and a rule for them.

    An update of version v, used when the server's model has version t, is :math:`\tau = t - v` versions stale and
    counts with the weight :math:`(1 + \tau)^{-a}`.

    Parameters
    ----------
    rule : rule
        Any, a `Memory` or `recommended` included.
    folder : path, optional
        Where updates and the index of them are kept, so that they survive a kill. An inbox that finds its index there
        continues from it. The updates have to be arrays, or arrays by name, then.
    staleness : float
        The exponent a. Above 0, the rule needs a form with weights, and the f heaviest updates may be Byzantine.
    oldest : int, optional
        The most versions that an update may be stale; older ones are refused, and leave.
    momentum : float
        :math:`\beta`. Above 0, the inbox keeps the running mean of each worker's updates,
        :math:`m \leftarrow \beta m + (1 - \beta) u`, and rules aggregate these means, as DeMoA [1]_ does. It replaces
        momentum at the server. An update that does not fit the mean before it, or one after a mean that is not finite,
        begins a new mean.
    workers : collection, optional
        Who may send. Without it anybody may, under any name, and f has to count names.

    Examples
    --------
    >>> from mixtailor import Comed, Fresh, Inbox
    >>> inbox = Inbox(Comed(), oldest=2)
    >>> for worker, value in [("ann", 1.0), ("bob", 2.0), ("cyn", 9e9)]:
    ...     inbox.put(worker, np.array([value]), version=0)
    >>> inbox.aggregate(when=Fresh(3)).update, inbox.version
    (array([2.]), 1)
    >>> inbox.aggregate(when=Fresh(3)) is None
    True
    >>> inbox.put("ann", np.array([1.0]), version=5)
    Traceback (most recent call last):
    mixtailor.memory.inbox.FutureError: ann sent an update of version 5, and the model has version 1.

    Notes
    -----
    One update for each worker: whoever sends faster than others replaces its own update. An update is safe when `put`
    returns: the update is on the disk, and then the index that names it, each whole or not at all. A kill between the
    two leaves the update that was there before. The version advances with every aggregation, also with one that gives
    no update: the model of the next version is then the same, and workers may send once more.

    References
    ----------
    .. [1] Otsuka, Takezawa, Yamada, "Delayed Momentum Aggregation: Communication-efficient Byzantine-robust Federated
       Learning with Partial Participation", ICML 2026.
    """

    def __init__(
        self,
        rule: Any,
        *,
        folder: str | Path | None = None,
        staleness: float = 0.0,
        oldest: int | None = None,
        momentum: float = 0.0,
        workers: Collection[object] | None = None,
    ) -> None:
        self.rule: Rule = as_rule(rule)
        if not 0.0 <= staleness < math.inf:
            refuse(f"Inbox needs staleness >= 0, the power of a weight, and got {staleness}.")
        if staleness:
            check_weighted(self.rule)
        if oldest is not None:
            check_count("Inbox", "oldest", oldest, 0)
        if not 0.0 <= momentum < 1.0:
            refuse(f"Inbox needs 0 <= momentum < 1, the share of a row that stays, and got {momentum}.")
        self.staleness, self.oldest, self.momentum = float(staleness), oldest, float(momentum)
        self.workers = None if workers is None else frozenset(str(worker) for worker in workers)
        self.folder = None if folder is None else Path(folder)
        self._version = 0
        self._rows: dict[str, _Row] = {}
        self._last: dict[str, int] = {}  # the version of each worker's last update, also of those that left
        self._mutex = threading.RLock()
        if self.folder is not None:
            if any(isinstance(part, Plain) for part in walk(self.rule)):
                refuse(
                    f"{self.rule!r} needs all updates as one matrix in memory, and an inbox with a folder keeps them "
                    "in files. Use a rule of this package, or leave folder= out."
                )
            self.folder.mkdir(parents=True, exist_ok=True)
            self._resume(self.folder)

    @property
    def version(self) -> int:
        """The version of the server's model: how many aggregations there were."""
        return self._version

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._rows))

    def __contains__(self, worker: object) -> bool:
        return str(worker) in self._rows

    def __getitem__(self, worker: object) -> Any:
        """The row of a worker as the rule is given it: its last update, or the running mean of its updates."""
        return opened(self._rows[str(worker)].update)

    def __repr__(self) -> str:
        return f"<Inbox of {plural(len(self), 'update')} at version {self.version}, {self.rule!r}>"

    def put(self, worker: object, update: Any, *, version: int) -> None:
        """Take in what a worker computed from the model of a version; a `RefusedError` says why not.

        Parameters
        ----------
        worker : object
            Its name.
        update : array, tensor or arrays by name
            In the form that all others have; what is not is named when it is aggregated.
        version : int
            The version of the model that the update was computed from.
        """
        name = str(worker)
        number = _number(version)
        if number is None:
            raise RefusedError(f"{shown(name)} sent an update without the version of a model, a whole number from 0.")
        with self._mutex:
            self._check(name, number)
            before = self._rows.get(name)
            if self.momentum and before is not None:
                update = running_mean(opened(before.update), update, self.momentum)
            kept = update if self.folder is None else self._written(self.folder, name, number, update)
            self._rows[name], self._last[name] = _Row(number, kept), number
            self._save_index()
            self._unlink([] if before is None else [before])

    def _check(self, name: str, version: int) -> None:
        who = shown(name)
        if self.workers is not None and name not in self.workers:
            raise UnknownWorkerError(f"{who} sent an update, but {len(self.workers)} other workers are expected.")
        if version > self._version:
            raise FutureError(f"{who} sent an update of version {version}, and the model has version {self._version}.")
        if self.oldest is not None and self._version - version > self.oldest:
            raise LateError(
                f"{who} sent an update of version {version}, {self._version - version} versions old, and at most "
                f"{self.oldest} are accepted."
            )
        last = self._last.get(name)
        if last is not None and version <= last:
            raise ReplayedError(
                f"{who} sent an update of version {version}, and its last one had version {last}: each worker sends "
                "one for a version, in order."
            )
        if last is None and len(self._last) >= MOST_WORKERS:
            raise UnknownWorkerError(f"{who} is new, and an inbox has at most {MOST_WORKERS:,} workers. Give workers=.")

    def aggregate(self, when: Fresh | Kept, **request: Unpack[RequestKeywords]) -> Aggregation | None:
        """The rule's result once there are enough updates, or None. Parameters besides `when` are those of any rule.

        The model's version advances by one, and the updates that were used are not fresh.

        With ``on_fault="skip"`` a rule that fails on what workers sent gives no update either; ``facts["failed"]`` of
        the result then has the error. Where there is no update, those that prove a fault leave the inbox; where the
        rule failed, all that it was given.
        """
        with self._mutex:
            self._drop_old()
            names = when.chosen(self._rows)
            if len(names) < max(self.rule.min_rows(), 1):
                return None
            request["workers"] = names
            behind = np.array([self._version - self._rows[name].version for name in names], np.float64)
            if self.staleness and behind.any():
                request["weights"] = ((1.0 + behind) ** -self.staleness).tolist()
            if isinstance(self.rule, Keeping):
                self.rule.repeated([name for name in names if not self._rows[name].fresh])
            result = self._aggregated(names, request)
            bad = [] if result.update is not None else _bad(result)
            for name in names:
                self._rows[name] = replace(self._rows[name], fresh=False)
            removed = [self._rows.pop(name) for name in bad]
            self._version += 1
            if self.folder is not None and isinstance(self.rule, Keeping):
                self.rule.save(self.folder / _MEMORY)
            self._save_index()
            self._unlink(removed)
            return result

    def _aggregated(self, names: list[str], request: RequestKeywords) -> Aggregation:
        try:
            return self.rule.aggregate([self._rows[name].update for name in names], **request)
        except OSError:  # the disk is not the workers' matter
            raise
        except Exception as error:
            if request.get("on_fault") != "skip" or any(trail.ended for trail in trails_of(self.rule)):
                raise
            failed = f"{type(error).__name__}: {shown(error)}"
            return Aggregation(None, self.rule, len(names), facts={"failed": failed}, workers=tuple(names))

    def last(self, worker: object) -> int:
        """The version of a worker's last update; -1 where it has sent none."""
        return self._last.get(str(worker), -1)

    def fresh(self) -> list[str]:
        """The workers whose update was not used yet."""
        return [name for name, row in self._rows.items() if row.fresh]

    def stale(self) -> dict[str, int]:
        """How many versions each worker's update is behind the model."""
        return {name: self._version - row.version for name, row in self._rows.items()}

    def _drop_old(self) -> None:
        if self.oldest is None:
            return
        self._unlink([self._rows.pop(name) for name, behind in self.stale().items() if behind > self.oldest])

    # On disk.

    def _written(self, folder: Path, name: str, version: int, update: Any) -> Path:
        stem = f"{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}-{version}"
        path = folder / f"{stem}{'.npz' if isinstance(update, Mapping) else '.npy'}"
        try:
            write(path, update)
        except (ValueError, TypeError, struct.error) as error:  # whatever was sent is this worker's matter
            raise RefusedError(f"{shown(name)} sent what an inbox on disk cannot keep: {error}") from None
        return path

    def _unlink(self, rows: Iterable[_Row]) -> None:
        if self.folder is not None:
            for row in rows:
                Path(row.update).unlink(missing_ok=True)

    def _save_index(self) -> None:
        if self.folder is None:
            return
        rows = {name: [row.version, Path(row.update).name, row.fresh] for name, row in self._rows.items()}
        with atomic_write(self.folder / _INDEX, mode=0o600) as file:
            file.write(json.dumps({"version": self._version, "rows": rows, "last": self._last}).encode())

    def _resume(self, folder: Path) -> None:
        path = folder / _INDEX
        if path.exists():
            try:
                index = json.loads(read_bounded(path, _MOST_BYTES))
                self._version = _count(index["version"])
                self._last = {str(name): _count(last) for name, last in index["last"].items()}
                for name, (version, file, fresh) in index["rows"].items():
                    if not _OWN.fullmatch(file):
                        raise ValueError
                    self._rows[str(name)] = _Row(_count(version), folder / file, bool(fresh))
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                refuse(f"{shown(path)} is not the index of an inbox, or is damaged. Remove the folder to start again.")
        named = {Path(row.update).name for row in self._rows.values()}
        for found in folder.iterdir():  # of a put that was killed before its index was written; no file of others
            if _OWN.fullmatch(found.name) and found.name not in named:
                found.unlink(missing_ok=True)
        if isinstance(self.rule, Keeping) and (folder / _MEMORY).exists():
            self.rule.load(folder / _MEMORY)


def _bad(result: Aggregation) -> list[str]:
    """Whose updates were of no use. Of a rule that failed nobody knows whose it was: all of them."""
    if "failed" in result.facts:
        return [str(worker) for worker in result.workers]
    return [str(found.worker) for found in result.quarantined]


def _number(version: object) -> int | None:
    """The number of a version, or None: workers say which it is."""
    if isinstance(version, bool) or not hasattr(version, "__index__"):
        return None
    number = operator.index(version)
    return number if 0 <= number < 1 << 53 else None


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError
    return value
