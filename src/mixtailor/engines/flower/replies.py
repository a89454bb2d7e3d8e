"""What clients replied: sound rows, faults by client, and who said nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict

from mixtailor._types import Array as Values
from mixtailor.engines.claims import is_claim
from mixtailor.engines.flower.arrays import Model, shown, view
from mixtailor.engines.flower.digests import digest_of_replies
from mixtailor.intake import Arrival
from mixtailor.intake.arrays import discrete_result
from mixtailor.intake.layout import named
from mixtailor.storage import Layers, Rows, flat_rows
from mixtailor.storage.kinds import Kind, Unfit

__all__ = ["Claims", "Collected", "by_client", "check_reference", "collect", "readable"]

NO_REPLY = "without a reply in time"


@dataclass(frozen=True)
class Claims:
    """What is made of the number of examples that a client claims to have.

    Attributes
    ----------
    key : str
        Its name among the client's metrics.
    cap : float or None
        Claims are weights, of which no client has more than this part; None, and they do not count at all.
    most : float
        A claim above this is a fault.
    """

    key: str
    cap: float | None
    most: float

    def of(self, content: RecordDict) -> float:
        """The number of examples that a client claims; a claim that cannot be is a fault."""
        claimed = [record[self.key] for record in content.metric_records.values() if self.key in record]
        if not claimed:
            if self.cap is None:
                return 1.0
            raise Unfit(f"without {self.key!r}, which updates are weighted by")
        claim = claimed[0]
        if isinstance(claim, list) or not is_claim(claim, self.most):
            raise Unfit(f"one with {self.key} = {shown(claim, 40)}, where a number from 0 to {self.most:g} is possible")
        return float(claim)


@dataclass
class Collected:
    """The replies of a round, by the order in which clients were asked.

    Attributes
    ----------
    nodes : list of int
        The clients that count: sound, faulty, and absent ones that are not excused.
    rows : dict
        The arrays of each sound client, by its place in `nodes`.
    contents : dict
        What each sound client sent besides.
    weights : dict
        The number of examples that each sound client claims.
    faults : dict
        What is wrong with the others, by place.
    absent, excused : list of int
        Clients that sent nothing, or an error, and those of them that do not count.
    messages : dict
        All that each client sent, by its place in `nodes`.
    strangers : list of str
        Replies that nobody asked for.
    """

    nodes: list[int]
    rows: dict[int, dict[str, Values]] = field(default_factory=dict)
    contents: dict[int, RecordDict] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)
    absent: list[int] = field(default_factory=list)
    excused: list[int] = field(default_factory=list)
    strangers: list[str] = field(default_factory=list)
    messages: dict[int, list[Message]] = field(default_factory=dict)

    def arrival(self, model: Model, *, models: bool) -> Arrival:
        """The sound updates as differences to the model, read where they are."""
        places = sorted(self.rows)
        storage = _storage([self.rows[place] for place in places], model, models)

        def restore(result: Any, left: tuple[int, ...]) -> dict[str, Values]:
            parts: dict[str, Values] = dict(
                zip(model.floats, [result] if len(model.floats) == 1 else result, strict=True)
            )
            for name in model.counts:
                kind = Kind("numpy", model.arrays[name].dtype, model.arrays[name].shape)
                parts[name] = discrete_result(kind, [self.rows[row][name].reshape(-1) for row in left])
            return parts

        def flatten(reference: ArrayRecord) -> Values:
            parts = check_reference(reference, model)
            base = model.arrays if models else {}
            return np.concatenate(
                [(np.asarray(parts[name], np.float64) - base.get(name, 0.0)).reshape(-1) for name in model.floats]
            )

        def sent(place: int) -> bytes | None:
            return digest_of_replies(self.messages[place])

        return Arrival(
            storage,
            tuple(places),
            dict(self.faults),
            len(self.nodes),
            restore,
            flatten,
            base=True,
            sent=sent,
        )


def collect(
    replies: Iterable[Message], asked: Sequence[Message], model: Model, claims: Claims, *, dropouts: int = 0
) -> Collected:
    """Sort the replies. Whatever a client sent, it is this client's fault alone.

    Parameters
    ----------
    replies : iterable of Message
    asked : sequence of Message
        What clients were asked.
    model : Model
        What they were sent.
    claims : Claims
    dropouts : int
        How many absent clients are excused: they are no rows, and take nothing from f.
    """
    by_node, strangers = by_client(replies, asked)
    silent = [node for node, sent in by_node.items() if not sent]
    failed = [node for node, sent in by_node.items() if len(sent) == 1 and _failed(sent[0])]
    excused = [*silent, *failed][:dropouts]
    found = Collected([node for node in by_node if node not in set(excused)])
    found.absent, found.excused, found.strangers = [*silent, *failed], excused, strangers
    for place, node in enumerate(found.nodes):
        found.messages[place] = by_node[node]
        try:
            content = _content(by_node[node])
            weight = claims.of(content)
            record = _one_record(content)
            found.rows[place] = _parts(record, model)
            found.contents[place], found.weights[place] = content, weight
        except Unfit as error:
            found.faults[place] = str(error)
        except Exception as error:  # a message may be broken in ways that nobody has thought of
            found.faults[place] = f"not an update ({type(error).__name__}: {shown(error)})"
    return found


def by_client(replies: Iterable[Message], asked: Sequence[Message]) -> tuple[dict[int, list[Message]], list[str]]:
    """The replies of each client that was asked, and what is known of replies that nobody asked for."""
    by_node: dict[int, list[Message]] = {message.metadata.dst_node_id: [] for message in asked}
    questions = {message.metadata.message_id: message.metadata.dst_node_id for message in asked}
    strangers = []
    for message in replies:
        try:
            node = _sender(message, questions)
            if node in by_node:
                by_node[node].append(message)
                continue
            reason = f": {shown(message.error.reason)}" if message.has_error() else ""
            strangers.append(f"{message.metadata.src_node_id}{reason}")
        except Exception as error:  # something that is not a message at all
            strangers.append(f"unknown: {type(error).__name__}: {shown(error)}")
    return by_node, strangers


def check_reference(reference: ArrayRecord, model: Model) -> dict[str, Values]:
    """The arrays of the server's own reply; one that is not like the model is the caller's mistake."""
    try:
        return _parts(reference, model)
    except Unfit as error:
        raise ValueError(f"The reference needs the arrays of the model, and is {error}.") from None


def _sender(message: Message, questions: dict[str, int]) -> int | None:
    """The client that a message is from. The sender that it names must be the client that the message replies to.

    For a client that has left, the SuperLink replies under its own name.
    """
    node, question = message.metadata.src_node_id, message.metadata.reply_to_message_id
    if question not in questions or not question:  # messages have no ids before they were sent
        return node if "" in questions else None
    owner = questions[question]
    return owner if message.has_error() or node == owner else None


def _failed(message: Message) -> bool:
    try:
        return message.has_error()
    except Exception:  # then it is no error but a fault, found when it is read
        return False


def readable(message: Message) -> bool:
    """Whether a message has content that can be looked at."""
    try:
        return message.has_content() and isinstance(message.content, RecordDict)
    except Exception:  # something that is not a message
        return False


def _content(messages: Sequence[Message]) -> RecordDict:
    if not messages:
        raise Unfit(NO_REPLY)
    if len(messages) > 1:
        raise Unfit(f"one of {len(messages)} replies to one question")
    message = messages[0]
    if message.has_error():
        raise Unfit(f"an error (code {message.error.code}: {shown(message.error.reason)})")
    if not message.has_content():
        raise Unfit("an empty reply")
    return message.content


def _one_record(content: RecordDict) -> ArrayRecord:
    records = list(content.array_records.values())
    if len(records) != 1:
        raise Unfit(f"a reply with {len(records)} records of arrays, where one is needed")
    return records[0]


def _parts(record: ArrayRecord, model: Model) -> dict[str, Values]:
    """The arrays of a reply, which must be those of the model in name, shape and kind."""
    for name in record:
        if name not in model.arrays:
            raise Unfit(f"with an extra {named((name,))}")
    parts = {}
    for name, own in model.arrays.items():
        if name not in record:
            raise Unfit(f"without {named((name,))}")
        try:
            values = view(record[name])
        except Unfit as error:
            raise Unfit(f"{error} ({named((name,))})") from None
        if values.shape != own.shape:
            raise Unfit(f"of shape {values.shape} where the model has {own.shape} ({named((name,))})")
        if (values.dtype.kind == "f") != (own.dtype.kind == "f"):
            raise Unfit(f"of type {values.dtype} where the model has {own.dtype} ({named((name,))})")
        parts[name] = values
    return parts


def _storage(rows: list[dict[str, Values]], model: Model, models: bool) -> Rows:
    """The updates and, after them, their base: the model, or zeros where differences were sent."""
    layers = []
    for name in model.floats:
        own = model.arrays[name]
        base = own if models else np.zeros(own.shape, own.dtype)
        dtype = np.dtype(np.float64) if own.dtype.itemsize > 8 else own.dtype.newbyteorder("=")
        layers.append(flat_rows([*(row[name] for row in rows), base], dtype))
    return layers[0] if len(layers) == 1 else Layers(layers, len(rows) + 1)
