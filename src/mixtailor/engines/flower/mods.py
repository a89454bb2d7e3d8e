"""Honest Flower clients turned into Byzantine ones, by mods: attacks, and replies that are broken."""

from collections.abc import Callable, Collection
from typing import Literal, get_args

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp.typing import ClientAppCallable, Mod

from mixtailor._checks import refuse
from mixtailor._types import Array as Values
from mixtailor.attacks import Attack, Informed, Oblivious
from mixtailor.engines.flower.arrays import view, written

__all__ = ["FAULTS", "byzantine_mod", "malformed_mod", "replaced", "update_of"]

Nodes = Callable[[Context], bool] | Collection[int] | None
Fault = Literal["missing", "extra", "shape", "type", "nan", "examples", "nan-examples", "empty", "error"]
FAULTS: tuple[str, ...] = get_args(Fault)
NODES = "a collection of partition ids, or a function of the Context"


def byzantine_mod(
    attack: Attack, *, nodes: Nodes = None, sends: Literal["models", "updates"] = "models", seed: int | None = None
) -> Mod:
    """A client mod that replaces what an honest client replies by what an attack makes of it.

    Parameters
    ----------
    attack : Attack
        One that a client can run by itself: from its own update, or `Oblivious()` before any other.
    nodes : collection of int or callable, optional
        Which clients are Byzantine: those with these `partition-id`, or those whose `Context` the function says yes to.
        All that the mod is applied to by default.
    sends : {"models", "updates"}
        What clients reply with, as in `RobustStrategy`.
    seed : int, optional
        For attacks that use randomness; the operating system's by default.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> from mixtailor.attacks import SignFlip
    >>> app = ClientApp(mods=[byzantine_mod(SignFlip(), nodes=[0, 1])])
    """
    if not isinstance(attack, Attack):
        raise TypeError(f"byzantine_mod needs an attack of mixtailor.attacks and got {type(attack).__name__}.")
    oblivious = isinstance(attack, Informed) and isinstance(attack.knowledge, Oblivious)
    if attack.on_labels:
        refuse(f"{attack!r} acts on labels, not on replies: pass a client's labels through its `labels` in training.")
    if not (attack.alone or oblivious):
        refuse(
            f"{attack!r} needs {attack.needs}, which one client does not have. In a simulation, give the server's grid "
            f"to Colluding; or let the client guess from its own update: Oblivious() | {attack!r}."
        )
    chosen = _chooser(nodes)
    rng = np.random.default_rng(seed)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        reply = call_next(message, context)
        if message.metadata.message_type != MessageType.TRAIN or not reply.has_content() or not chosen(context):
            return reply
        own = update_of(message, reply, sends)
        wrong = attack([own, own], 1, own=[own], rng=rng)[0] if oblivious else attack.corrupt(own, rng=rng)
        return replaced(message, reply, wrong, sends)

    return mod


def malformed_mod(fault: Fault, *, nodes: Nodes = None) -> Mod:
    """A client mod that breaks replies: to see what a server does with them.

    Parameters
    ----------
    fault : str
        "missing" or "extra" array, another "shape", an unknown array "type", "nan", a claim of 1e12 "examples" or
        "nan-examples", an "empty" reply, an "error".
    nodes : collection of int or callable, optional
        Which clients, as for `byzantine_mod`.

    Examples
    --------
    >>> from flwr.clientapp import ClientApp
    >>> app = ClientApp(mods=[malformed_mod("shape", nodes=[0])])
    """
    if fault not in FAULTS:
        refuse(f"malformed_mod needs a fault of {', '.join(FAULTS)} and got {fault!r}.")
    chosen = _chooser(nodes)

    def mod(message: Message, context: Context, call_next: ClientAppCallable) -> Message:
        reply = call_next(message, context)
        if message.metadata.message_type != MessageType.TRAIN or not chosen(context):
            return reply
        return _broken(message, reply, fault)

    return mod


def update_of(message: Message, reply: Message, sends: str) -> dict[str, Values]:
    """The update in a client's reply to a message; whole numbers are left as they are."""
    return difference(_arrays(message), _arrays(reply), sends)


def difference(model: ArrayRecord, replied: ArrayRecord, sends: str) -> dict[str, Values]:
    """The update in the arrays of a reply; whole numbers are left as they are."""
    own = {name: view(array) for name, array in replied.items()}
    if sends == "updates":
        return own
    base = {name: view(array) for name, array in model.items()}
    return {name: values - base[name] if values.dtype.kind == "f" else values for name, values in own.items()}


def replaced(message: Message, reply: Message, update: dict[str, Values], sends: str) -> Message:
    """The reply with another update in it, and everything else as it was."""
    base = {name: view(array) for name, array in _arrays(message).items()} if sends == "models" else {}
    record = ArrayRecord()
    with np.errstate(over="ignore", invalid="ignore"):  # an attack may be beyond all numbers
        for name, values in update.items():
            moves = name in base and values.dtype.kind == "f"
            record[name] = written(base[name] + values if moves else values)
    content = RecordDict(dict(reply.content.items()))
    content[next(iter(reply.content.array_records))] = record
    reply.content = content
    return reply


def _chooser(nodes: Nodes) -> Callable[[Context], bool]:
    if nodes is None:
        return lambda _context: True
    if callable(nodes):
        return nodes
    wanted = set(nodes)

    def chosen(context: Context) -> bool:
        if "partition-id" not in context.node_config:
            refuse(f"nodes= needs a partition-id in this node's config, and it has none. Give {NODES}.")
        return context.node_config["partition-id"] in wanted

    return chosen


def _arrays(message: Message) -> ArrayRecord:
    records = list(message.content.array_records.values())
    if len(records) != 1:
        refuse(f"A Byzantine client needs one record of arrays to work on and got {len(records)}.")
    return records[0]


def _broken(message: Message, reply: Message, fault: Fault) -> Message:
    if fault == "error":
        return Message(Error(code=0, reason="a client that is out of order"), reply_to=message)
    if fault == "empty":
        return Message(RecordDict(), reply_to=message)
    key, arrays = next(iter(reply.content.array_records.items()))
    record = ArrayRecord(dict(arrays.items()))
    name = next(iter(record))
    values = view(record[name])
    if fault == "missing":
        del record[name]
    elif fault == "extra":
        record["one-too-many"] = written(np.zeros(3, np.float32))
    elif fault == "shape":
        record[name] = written(np.concatenate([values.reshape(-1), values.reshape(-1)[:1]]))
    elif fault == "type":
        record[name] = Array(record[name].dtype, record[name].shape, "a.type.of.its.own", record[name].data)
    elif fault == "nan":
        record[name] = written(np.full_like(values, np.nan))
    content = RecordDict(dict(reply.content.items()))
    content[key] = record
    if fault in ("examples", "nan-examples"):
        claim = 1e12 if fault == "examples" else float("nan")
        for place, metrics in list(content.metric_records.items()):
            content[place] = MetricRecord({**metrics, "num-examples": claim})
    reply.content = content
    return reply
