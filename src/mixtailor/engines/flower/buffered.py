"""`BufferedServer`: Flower without rounds. Clients train when they are free; the server steps when it has enough."""

import logging
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, final

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Array as Values
from mixtailor.engines.claims import MOST_EXAMPLES
from mixtailor.engines.flower.arrays import Model, shown
from mixtailor.engines.flower.optimizers import Momentum, ServerOptimizer, Stepper
from mixtailor.engines.flower.refusals import refuse_seeds
from mixtailor.engines.flower.replies import Claims, collect
from mixtailor.engines.rehearsal import rehearse, why_skipped
from mixtailor.engines.statistics import STATISTICS, by_order, check_statistics, from_order
from mixtailor.memory.inbox import Fresh, Inbox, Kept, RefusedError
from mixtailor.rules.aggregation import Aggregation
from mixtailor.storage.kinds import Unfit

__all__ = ["BufferedServer", "Steps"]

_log = logging.getLogger("flwr.mixtailor")


@dataclass(frozen=True)
class Steps:
    """What a buffered server did.

    Attributes
    ----------
    arrays : ArrayRecord
        The last model.
    records : list of dict
        One for each step: the version of the model that it made, the seconds since the start, the clients whose updates
        were used and those that were quarantined, whether the model stayed as it was, and what `evaluate_fn` found.
    faults : dict
        How many replies of each client were of no use: errors, other arrays than the model's, late ones.
    """

    arrays: ArrayRecord
    records: list[dict[str, Any]] = field(repr=False)
    faults: dict[str, int]


@final
@dataclass
class BufferedServer:
    r"""Federated learning that does not wait for its slowest client, as FedBuff, with a rule of ours.

    Every client that is free gets the newest model. Its reply goes into an `Inbox`, as the difference to the model that
    *it* was given. Whenever the inbox has enough updates, its rule makes one step of them. With more than f faulty
    ones, or where the rule fails on what clients sent, the model stays as it was for that step.

    Parameters
    ----------
    inbox : Inbox
        With its rule, and with `oldest`, `staleness`, `momentum` and `folder` as you need them.
    when : Fresh or Kept
        How many updates a step needs, and which of them are aggregated.
    sends : {"models", "updates"}
        What clients reply with: their model after training, or its difference to the model they got.
    learning_rate, momentum : float
        The server's, 1 and 0 by default.
    server_optimizer : ServerOptimizer, optional
        In the place of both.
    statistics : collection of str
        Arrays that clients measure and do not learn, by the last part of their names; those of BatchNorm by default.
        The next one is the lower median of what clients sent: sums of differences to older models can make a variance
        negative.
    ttl : float
        Seconds after which a client that did not reply is asked again, or one whose reply to the newest model was of no
        use: a client that fails at once must not be sent the model again and again.
    poll : float
        Seconds between two looks for replies.

    Examples
    --------
    >>> import mixtailor as mt
    >>> BufferedServer(mt.Inbox(mt.recommended(f=2), oldest=10), when=mt.Fresh(8)).ttl
    600.0

    Notes
    -----
    Flower's strategies are called once for each round, when all replies have arrived. So this is no strategy: call
    `start` in the main function of a `ServerApp`.

    References
    ----------
    .. [1] Nguyen et al., "Federated Learning with Buffered Asynchronous Aggregation", AISTATS 2022.
    """

    inbox: Inbox
    when: Fresh | Kept = field(kw_only=True)
    sends: Literal["models", "updates"] = field(default="models", kw_only=True)
    learning_rate: float = field(default=1.0, kw_only=True)
    momentum: float = field(default=0.0, kw_only=True)
    server_optimizer: ServerOptimizer | None = field(default=None, kw_only=True)
    statistics: Collection[str] = field(default=STATISTICS, kw_only=True)
    ttl: float = field(default=600.0, kw_only=True)
    poll: float = field(default=0.2, kw_only=True)

    def __post_init__(self) -> None:
        if self.sends not in ("models", "updates"):
            refuse(f'BufferedServer needs sends="models" or "updates" and got {self.sends!r}.')
        check_statistics("BufferedServer", self.statistics)
        check_positive("BufferedServer", "ttl", self.ttl)
        check_positive("BufferedServer", "poll", self.poll)
        self._steps = Stepper(
            self.server_optimizer or Momentum(learning_rate=self.learning_rate, momentum=self.momentum)
        )
        self._claims = Claims("num-examples", None, MOST_EXAMPLES)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        steps: int,
        *,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Steps:
        """Train for so many steps, or until the timeout, in seconds.

        Parameters
        ----------
        grid : Grid
            Of the `ServerApp`.
        initial_arrays : ArrayRecord
            The model.
        steps : int
            How many steps to take.
        timeout : float, optional
            The seconds after which training ends in any case.
        train_config : ConfigRecord, optional
            What clients are sent besides the model; ``server-round`` is added, the version plus one.
        evaluate_fn : callable, optional
            Called with the version and the arrays after each step.
        """
        check_count("BufferedServer.start", "steps", steps)
        config = train_config or ConfigRecord()
        refuse_seeds(config, "the configuration that clients are sent", ())
        begun, last = time.monotonic(), self.inbox.version + steps
        models = {
            self.inbox.version: Model.of(initial_arrays, self.statistics)
        }  # those that clients compute on, and the newest
        self._rehearse(models[self.inbox.version])
        asked: dict[str, Message] = {}
        failed: dict[int, tuple[int, float]] = {}  # at which version, and when, a client's reply was of no use
        records: list[dict[str, Any]] = []
        faults: dict[str, int] = {}
        while self.inbox.version < last and (timeout is None or time.monotonic() - begun < timeout):
            failed = {node: at for node, at in failed.items() if self._rests(*at)}
            asked.update(self._send_out(grid, models[self.inbox.version].record, config, asked.values(), failed))
            replies = list(grid.pull_messages(list(asked))) if asked else []
            for message in replies:
                question = asked.pop(message.metadata.reply_to_message_id, None)
                if question is not None and not self._put(message, question, models, faults):
                    failed[question.metadata.dst_node_id] = (_version(question), time.monotonic())
            result = self.inbox.aggregate(self.when, on_fault="skip") if replies else None
            if result is not None:
                records.append(self._stepped(result, models))
                records[-1]["seconds"] = time.monotonic() - begun
                if evaluate_fn is not None:
                    found = evaluate_fn(self.inbox.version, models[self.inbox.version].record)
                    records[-1]["metrics"] = dict(found or {})
            if not replies:
                time.sleep(self.poll)
            needed = {_version(message) for message in asked.values()} | {self.inbox.version}
            models = {version: model for version, model in models.items() if version in needed}
        return Steps(models[self.inbox.version].record, records, faults)

    def _rehearse(self, model: Model) -> None:
        """Try the rule on harmless updates: what fails from then on is what clients sent, and does not end the run."""
        rule, d = self.inbox.rule, sum(model.arrays[name].size for name in model.floats)
        rehearse(rule, max(self.when.k, rule.min_rows()), d, reference=False)

    def _rests(self, version: int, since: float) -> bool:
        return version == self.inbox.version and time.monotonic() - since < self.ttl

    def _send_out(
        self, grid: Grid, model: ArrayRecord, config: ConfigRecord, asked: Iterable[Message], failed: Collection[int]
    ) -> dict[str, Message]:
        """Ask every client that is free and has not replied to this version."""
        version = self.inbox.version
        busy = {*failed, *(message.metadata.dst_node_id for message in asked)}
        free = [node for node in grid.get_node_ids() if node not in busy and self.inbox.last(node) < version]
        config["server-round"] = version + 1
        content = RecordDict({"arrays": model, "config": config})
        messages = [Message(content, node, MessageType.TRAIN, ttl=self.ttl, group_id=str(version)) for node in free]
        return dict(zip(grid.push_messages(messages), messages, strict=True)) if messages else {}

    def _put(self, message: Message, question: Message, models: dict[int, Model], faults: dict[str, int]) -> bool:
        """One reply into the inbox, as a difference, if it is of use; whatever it holds is the client's own matter."""
        node, version = question.metadata.dst_node_id, _version(question)
        model = models[version]
        found = collect([message], [question], model, self._claims)
        reason = found.faults.get(0, "")
        if 0 in found.rows:
            row = dict(found.rows[0])
            for name in model.floats:
                own = model.arrays[name]
                with np.errstate(all="ignore"):  # what is not finite is found when it is aggregated
                    sent = np.asarray(row[name], own.dtype)
                    row[name] = sent - own if self.sends == "models" else sent
            try:
                row.update({name: self._statistic(row[name], model, name) for name in model.statistics})
                self.inbox.put(node, row, version=version)
            except (RefusedError, Unfit) as error:
                reason = str(error)
        if not reason and 0 in found.rows:
            return True
        faults[str(node)] = faults.get(str(node), 0) + 1
        _log.warning("Version %d: the reply of node %d is left out: %s", version, node, shown(reason or "no reply"))
        return False

    def _statistic(self, sent: Values, model: Model, name: str) -> Values:
        own = model.arrays[name]
        dtype = np.float64 if own.dtype.itemsize > 4 else np.float32
        with np.errstate(all="ignore"):  # looked for there
            values = np.asarray(sent, dtype) if self.sends == "models" else np.asarray(sent, dtype) + own.astype(dtype)
            return by_order(np.asarray(values, own.dtype).astype(dtype), name)

    def _stepped(self, result: Aggregation, models: dict[int, Model]) -> dict[str, Any]:
        """The next model, and what is known of the step. Without a finite one, the model stays as it was."""
        version = self.inbox.version
        model = models[version - 1]
        record, why = model.record, why_skipped(result, "clients")
        if not why:
            update = {name: np.asarray(values).reshape(-1) for name, values in result.update.items()}
            update.update({name: from_order(update[name]) for name in model.statistics})
            if self._steps.stepped(model, update):
                record = model.with_values(update)
            else:
                why = "the next one would not be finite."
        if why:
            _log.warning("Version %d: the model stays as it was: %s", version, why)
        models[version] = Model.of(record, self.statistics)
        for found in result.quarantined:
            _log.warning("Version %d: node %s is quarantined: %s", version, found.worker, found.reason)
        return {
            "version": version,
            "rule": repr(result.rule),
            "workers": list(result.workers or ()),
            "quarantined": [str(found.worker) for found in result.quarantined],
            "skipped": bool(why),
        }


def _version(message: Message) -> int:
    return int(message.metadata.group_id)
