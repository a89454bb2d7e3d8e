"""One round without a network: a grid of clients that are functions, and replies as clients would send them."""

import logging
from contextlib import contextmanager

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity

NODES = [11, 22, 33, 44, 55, 66, 77, 88, 99]


class LocalGrid(Grid):
    """Clients are called in place; `answer(message)` gives the reply, or None for a client that stays silent."""

    def __init__(self, nodes=NODES, answer=None, config=None):
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        self.nodes, self.answer = list(nodes), answer
        self._run = Run.create_empty(1)
        self._run.override_config = config or {}

    def set_run(self, run):
        self._run = run

    @property
    def run(self):
        return self._run

    def get_node_ids(self):
        return list(self.nodes)

    def send_and_receive(self, messages, *, timeout=None):
        return [reply for reply in map(self.answer, messages) if reply is not None]

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def push_messages(self, messages):
        raise NotImplementedError

    def pull_messages(self, message_ids):
        raise NotImplementedError


class SlowGrid(LocalGrid):
    """Clients that take their time: `delay(node)` looks pass before a reply of `answer(message)` can be pulled."""

    def __init__(self, delay, answer, nodes=NODES):
        super().__init__(nodes, answer)
        self.delay, self.looks, self.waiting = delay, 0, {}

    def push_messages(self, messages):
        ids = []
        for message in messages:
            message.metadata._message_id = f"m{len(self.waiting)}"
            self.waiting[message.metadata.message_id] = (self.looks + self.delay(message.metadata.dst_node_id), message)
            ids.append(message.metadata.message_id)
        return ids

    def pull_messages(self, message_ids):
        self.looks += 1
        due = [name for name in message_ids if self.waiting[name][0] <= self.looks]
        return [found for found in (self.answer(self.waiting[name][1]) for name in due) if found is not None]


def model(seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return {
        "conv.weight": rng.standard_normal((3, 4)).astype(dtype),
        "norm.count": np.array(7, np.int64),
        "norm.flags": np.array([True, False]),
        "fc.bias": rng.standard_normal(5).astype(dtype),
    }


def record(arrays):
    return ArrayRecord({name: Array(np.asarray(values)) for name, values in arrays.items()})


def arrays_of(found):
    return {name: array.numpy() for name, array in found.items()}


def trained(own, seed, step=0.1):
    """What a client makes of a model: all real numbers moved a little, the counter by one."""
    rng = np.random.default_rng(seed)
    return {
        name: values + (step * rng.standard_normal(values.shape)).astype(values.dtype)
        if values.dtype.kind == "f"
        else values + 1
        if values.dtype.kind == "i"
        else values
        for name, values in own.items()
    }


def reply(message, arrays, **metrics):
    metrics = {"num-examples": 10, "loss": 0.5, **metrics}
    content = RecordDict({"arrays": record(arrays), "metrics": MetricRecord(metrics)})
    return Message(content, reply_to=message)


def asked(strategy, own, server_round=1, grid=None, **config):
    """The messages of a round, by node."""
    messages = strategy.configure_train(server_round, record(own), ConfigRecord(config), grid or LocalGrid())
    return {message.metadata.dst_node_id: message for message in messages}


def honest(messages, own):
    """The replies of honest clients, by node."""
    return {node: reply(message, trained(own, node)) for node, message in messages.items()}


def differences(replies, own):
    """The updates in replies, one flat row each."""
    rows = []
    for node in replies:
        sent = arrays_of(next(iter(replies[node].content.array_records.values())))
        rows.append(flat({name: sent[name].astype(np.float64) - own[name] for name in sent}, own))
    return np.stack(rows)


def flat(values, own):
    return np.concatenate([values[name].reshape(-1) for name in own if own[name].dtype.kind == "f"])


@contextmanager
def logged():
    """The lines that are logged; Flower's own logger does not pass them on."""
    lines = []

    class Kept(logging.Handler):
        def emit(self, line):
            lines.append(line.getMessage())

    handler = Kept()
    logger = logging.getLogger("flwr")
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


def played(strategy, spoil=None, own=None, server_round=1, grid=None):
    """One round; `spoil` changes the replies, given by node. Returns the new arrays, the metrics and the replies."""
    own = OWN if own is None else own
    messages = asked(strategy, own, server_round, grid)
    replies = honest(messages, own)
    if spoil is not None:
        replies = spoil(messages, replies)
    arrays, metrics = strategy.aggregate_train(server_round, list(replies.values()))
    return arrays_of(arrays), metrics, replies


def moved(arrays, own=None):
    """By what a model has moved, flat."""
    own = OWN if own is None else own
    return flat({name: arrays[name].astype(np.float64) - own[name] for name in own if own[name].dtype != bool}, own)


OWN = model()
