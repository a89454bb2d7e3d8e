"""`run_buffered`: Flower without rounds. Clients reply when they can, and an inbox waits for enough of them."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, MetricRecord, RecordDict
from flwr.serverapp import Grid

from mixtailor._checks import check_count, check_positive, listing, refuse
from mixtailor._types import Array as Values
from mixtailor.engines.claims import MOST_EXAMPLES
from mixtailor.engines.flower.arrays import Model
from mixtailor.engines.flower.optimizers import Momentum, ServerOptimizer, Stepper
from mixtailor.engines.flower.refusals import refuse_seeds
from mixtailor.engines.flower.replies import Claims, collect
from mixtailor.memory.inbox import Fresh, Inbox, Kept, RefusedError

__all__ = ["run_buffered"]

_log = logging.getLogger("flwr.mixtailor")
_UNCOUNTED = Claims("num-examples", None, MOST_EXAMPLES)


def run_buffered(
    grid: Grid,
    inbox: Inbox,
    initial_arrays: ArrayRecord,
    *,
    when: Fresh | Kept,
    versions: int,
    server_optimizer: ServerOptimizer | None = None,
    train_config: Mapping[str, Any] | None = None,
    public_seeds: Collection[str] = (),
    evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    pause: float = 0.5,
    timeout: float = 3600.0,
) -> ArrayRecord:
    """Train until the model has a number of versions; each is made of the updates that have arrived by then.

    Every connected client is asked once for each version. A client that is still computing when the version advances
    replies late: its update counts as stale, by the version that this server sent it.

    Parameters
    ----------
    grid : Grid
    inbox : Inbox
        The rule, how stale an update may be, and who may send.
    initial_arrays : ArrayRecord
        The first model. Clients reply with their model after training.
    when : Fresh or Kept
        How many new updates make a version.
    versions : int
        The version at which to stop.
    server_optimizer : ServerOptimizer, optional
        `Adam`, `Yogi` or `Adagrad`; without it, the aggregate is added to the model.
    train_config : mapping, optional
        What clients are sent with the model; ``server-round`` is added, the version.
    public_seeds : collection of str
        Keys of seeds that may be known to everybody.
    evaluate_fn : callable, optional
        Called with each version and its model.
    pause : float
        Seconds between two looks at what has arrived.
    timeout : float
        Seconds without a new version after which training ends, with the model that there is.

    Returns
    -------
    ArrayRecord
        The last model.

    Notes
    -----
    Whose reply it is and which version it was computed from come from the message that it replies to, not from what the
    reply says. A reply that cannot be used is named in the log and takes nobody's place: of k fresh updates at most f
    are Byzantine, however fast they are. A client is asked again after each version, also after an error.
    """
    check_count("run_buffered", "versions", versions, 0)
    check_positive("run_buffered", "pause", pause)
    if when.k < inbox.rule.min_rows():
        refuse(
            f"run_buffered needs as many new updates as the rule does: {inbox.rule!r} needs {inbox.rule.min_rows()} "
            f"({inbox.rule.needs()}), and {when!r} waits for {when.k}."
        )
    config = ConfigRecord(dict(train_config or {}))
    refuse_seeds(config, "the configuration that clients are sent", frozenset(public_seeds))
    stepper = Stepper(server_optimizer or Momentum(learning_rate=1.0, momentum=0.0))
    model, asked, seen = Model.of(initial_arrays), _Asked(grid), time.monotonic()
    while inbox.version < versions:
        asked.ask(model, config, inbox.version)
        for question, sent, version, reply in asked.replies():
            _put(inbox, question, sent, version, reply)
        result = inbox.aggregate(when, on_fault="skip")
        if result is not None:
            for found in result.quarantined:
                _log.warning("Version %d: node %s is quarantined: %s", inbox.version, found.worker, found.reason)
        if result is not None and result.update is not None:
            update = {name: np.asarray(values).reshape(-1) for name, values in result.update.items()}
            if stepper.stepped(model, update):
                model = Model.of(model.with_values(update))
            else:
                _log.warning("Version %d is the model as it was: the next one would not be finite.", inbox.version)
            _log.info("Version %d: %r on %d updates", inbox.version, result.rule, result.n)
            if evaluate_fn is not None:
                _log.info("Version %d: %s", inbox.version, evaluate_fn(inbox.version, model.record))
            seen = time.monotonic()
        elif time.monotonic() - seen > timeout:
            _log.warning("No new version within %g s: training ends at version %d.", timeout, inbox.version)
            break
        else:
            time.sleep(pause)
    return model.record


class _Asked:
    """Which client was asked for which version, with which model."""

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self._open: dict[str, tuple[Message, Model, int]] = {}  # by the id of the message
        self._last: dict[int, int] = {}  # the version that each client was asked for last

    def ask(self, model: Model, config: ConfigRecord, version: int) -> None:
        busy = {message.metadata.dst_node_id for message, _, _ in self._open.values()}
        config["server-round"] = version
        content = RecordDict({"arrays": model.record, "config": config})
        messages = [
            Message(content, dst_node_id=node, message_type=MessageType.TRAIN)
            for node in self.grid.get_node_ids()
            if node not in busy and self._last.get(node, -1) < version
        ]
        for message, name in zip(messages, self.grid.push_messages(messages), strict=True):
            self._last[message.metadata.dst_node_id] = version
            self._open[name] = message, model, version

    def replies(self) -> list[tuple[Message, Model, int, Message]]:
        """What has arrived, each with the message that it replies to."""
        found = []
        for reply in self.grid.pull_messages(list(self._open)) if self._open else ():
            question = self._open.pop(reply.metadata.reply_to_message_id, None)
            if question is not None:
                found.append((*question, reply))
        return found


def _put(inbox: Inbox, question: Message, sent: Model, version: int, reply: Message) -> None:
    node = question.metadata.dst_node_id
    collected = collect([reply], [question], sent, _UNCOUNTED)
    if collected.faults or not collected.rows:
        reasons = listing(collected.faults.values()) or "a reply that it did not send"
        _log.warning("Version %d: node %d is left out: %s", inbox.version, node, reasons)
        return
    try:
        inbox.put(node, _difference(collected.rows[0], sent), version=version)
    except RefusedError as error:
        _log.warning("Version %d: node %d is left out: %s", inbox.version, node, error)


def _difference(parts: dict[str, Values], sent: Model) -> dict[str, Values]:
    """What a client changed; of counters, what they are now."""
    found = {}
    with np.errstate(all="ignore"):  # what is not finite is quarantined by the rule
        for name, values in parts.items():
            own = sent.arrays[name]
            difference = np.asarray(values, own.dtype) - own if name in sent.floats else values
            found[name] = difference.view(np.uint8) if difference.dtype == bool else difference
    return found
