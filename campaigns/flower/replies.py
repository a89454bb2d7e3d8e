"""What hostile clients reply. Each kind says whether it proves a fault, and so must be quarantined by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

from mixtailor.engines.flower.arrays import written

Arrays = dict[str, Any]
Sent = list[Any]
RANGE = {"tiny": 5e-324, "far": 1e12, "huge": 3e38}


@dataclass(frozen=True)
class Kind:
    """One way to be hostile: what is sent, and whether it proves a fault or is an absence."""

    send: Callable[[np.random.Generator, Message, Arrays], Sent]
    proves: bool = True
    absent: bool = False


def reply(message: Message, arrays: ArrayRecord | Arrays, **metrics: Any) -> Message:
    """A reply as a client sends it."""
    record = arrays if isinstance(arrays, ArrayRecord) else record_of(arrays)
    claims = {"num-examples": 100, "loss": 0.5, **metrics}
    return Message(RecordDict({"arrays": record, "metrics": MetricRecord(claims)}), reply_to=message)


def record_of(arrays: Arrays) -> ArrayRecord:
    """Arrays as a record."""
    return ArrayRecord({name: written(np.asarray(values)) for name, values in arrays.items()})


def _filled(value: float) -> Callable[[np.random.Generator, Message, Arrays], Sent]:
    def send(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
        with np.errstate(over="ignore"):
            signs = {name: rng.choice([-1.0, 1.0], values.shape) for name, values in own.items()}
            return [reply(message, {n: (value * signs[n]).astype(v.dtype) if _real(v) else v for n, v in own.items()})]

    return send


def _real(values: Any) -> bool:
    return bool(values.dtype.kind == "f")


def _one(own: Arrays, rng: np.random.Generator) -> str:
    return str(rng.choice([name for name, values in own.items() if _real(values)]))


def _put(make: Callable[[np.random.Generator, Any], Array]) -> Callable[[np.random.Generator, Message, Arrays], Sent]:
    """One array in the place of another."""

    def send(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
        record, name = record_of(own), _one(own, rng)
        record[name] = make(rng, own[name])
        return [reply(message, record)]

    return send


def _raw(values: Any, data: bytes, stype: str = "numpy.ndarray") -> Array:
    return Array(str(values.dtype), values.shape, stype, data)


def _noise(rng: np.random.Generator, values: Any) -> Array:
    return _raw(values, rng.bytes(int(rng.integers(0, 400))))


def _flipped(rng: np.random.Generator, values: Any) -> Array:
    data = bytearray(written(values).data)
    data[int(rng.integers(0, min(len(data), 128)))] ^= 1 << int(rng.integers(0, 8))
    return _raw(values, bytes(data))


def _poisoned(rng: np.random.Generator, values: Any) -> Array:
    bad = np.array(values)
    bad.reshape(-1)[int(rng.integers(0, bad.size))] = rng.choice([np.nan, np.inf, -np.inf])
    return written(bad)


def _missing(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    left_out = _one(own, rng)
    return [reply(message, {name: values for name, values in own.items() if name != left_out})]


def _claim(value: Any) -> Callable[[np.random.Generator, Message, Arrays], Sent]:
    return lambda _rng, message, own: [reply(message, own, **{"num-examples": value})]


def _many(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    return [reply(message, own) for _ in range(int(rng.integers(2, 6)))]


def _late(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    """The answer to another question, under this client's name."""
    old = reply(message, own)
    old.metadata.__dict__["_reply_to_message_id"] = "of a round long ago"
    return [old]


def _posing(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    """An answer to this client's question under another name."""
    posing = reply(message, own)
    posing.metadata.__dict__["_src_node_id"] = int(rng.integers(1, 20))
    return [posing] if posing.metadata.src_node_id != message.metadata.dst_node_id else []


def _records(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    content = reply(message, own).content
    content["more"] = record_of({"x": np.zeros(2)})
    content["odd"] = ConfigRecord({"secaggplus": b"\x00" * 40, "\x1b[2J": "a" * 3000})
    return [Message(content, reply_to=message)]


def _metrics(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    """Sound arrays, and metrics that are anything."""
    odd = [float("nan"), float("inf"), 10**300, -1, [1.0, float("nan")], [], [2**60] * 50]
    names = ["loss", "mixtailor-rule", "mixtailor-skipped", "\x1b[2J", "x" * 500]
    return [reply(message, own, **{name: odd[int(rng.integers(0, len(odd)))] for name in names})]


class _Broken:
    """Something that is not a message, and says so loudly."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(name)


def _error(rng: np.random.Generator, message: Message, own: Arrays) -> Sent:
    reason = str(rng.choice(["out of memory", "\x1b[31m", "x" * 5000]))
    return [Message(Error(code=int(rng.integers(0, 9)), reason=reason), reply_to=message)]


KINDS: dict[str, Kind] = {
    "tailored": Kind(lambda rng, m, own: [reply(m, {n: -v if _real(v) else v for n, v in own.items()})], proves=False),
    **{name: Kind(_filled(value), proves=False) for name, value in RANGE.items()},
    "missing": Kind(
        lambda rng, m, own: [reply(m, {n: v for n, v in own.items() if n != _one(own, rng)})], proves=False
    ),
    "extra": Kind(lambda rng, m, own: [reply(m, {**own, "one\x07more": np.zeros(3)})]),
    "no arrays": Kind(lambda rng, m, own: [reply(m, {})]),
    "shape": Kind(_put(lambda rng, values: written(np.concatenate([values.reshape(-1), values.reshape(-1)[:1]])))),
    "whole numbers": Kind(_put(lambda rng, values: written(np.zeros(values.shape, np.int64)))),
    "complex": Kind(_put(lambda rng, values: Array(np.zeros(values.shape, np.complex64)))),
    "text": Kind(_put(lambda rng, values: Array(np.full(values.shape, "a")))),
    "array type": Kind(_put(lambda rng, values: _raw(values, written(values).data, "a.type.of.its.own"))),
    "noise": Kind(_put(_noise)),
    "a flipped bit": Kind(_put(_flipped), proves=False),
    "cut short": Kind(_put(lambda rng, values: _raw(values, written(values).data[:-1]))),
    "a pickle": Kind(_put(lambda rng, v: _raw(v, written(v).data.replace(b"'<f", b"'|O")))),
    "not finite": Kind(_put(_poisoned)),
    "claims 1e12": Kind(_claim(1e12)),
    "claims -1": Kind(_claim(-1)),
    "claims nan": Kind(_claim(float("nan"))),
    "claims a list": Kind(_claim([1])),
    "claims 10^300": Kind(_claim(10**300)),
    "claims the most": Kind(_claim(1e9), proves=False),
    "claims nothing": Kind(_claim(0), proves=False),
    "records": Kind(_records),
    "metrics": Kind(_metrics, proves=False),
    "many": Kind(_many),
    "empty": Kind(lambda rng, m, own: [Message(RecordDict(), reply_to=m)]),
    "error": Kind(_error, absent=True),
    "silent": Kind(lambda rng, m, own: [], absent=True),
    "late": Kind(_late, absent=True),
    "posing": Kind(_posing, absent=True),
    "no message": Kind(lambda rng, m, own: [None, 7, "text", _Broken()], absent=True),
}
