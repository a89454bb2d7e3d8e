"""What an audit log holds of a client's reply: one digest of every record in it."""

from collections.abc import Sequence
from typing import Any

from flwr.app import Message, RecordDict

from mixtailor.intake.digests import digest_of

__all__ = ["digest_of_content", "digest_of_replies"]


def digest_of_content(content: RecordDict) -> bytes:
    """The digest of a reply, for a client that checks its receipt: arrays, metrics, claimed examples, configuration.

    Examples
    --------
    >>> from flwr.app import MetricRecord
    >>> few, many = (RecordDict({"metrics": MetricRecord({"num-examples": claim})}) for claim in (10, 1000))
    >>> digest_of_content(few) == digest_of_content(many)
    False
    """
    return digest_of(_written(content))


def digest_of_replies(messages: Sequence[Message]) -> bytes | None:
    """The digest of all that a client sent in a round; None if it sent nothing."""
    if not messages:
        return None
    if len(messages) == 1 and messages[0].has_content():
        return digest_of_content(messages[0].content)
    return digest_of([_reply(message) for message in messages])


def _reply(message: Message) -> Any:
    if message.has_error():
        return ("error", message.error.code, message.error.reason)
    return _written(message.content) if message.has_content() else ("empty",)


def _written(content: RecordDict) -> Any:
    """A reply as containers of bytes and numbers. Bytes of arrays are those of the message, whatever they mean."""
    arrays = {
        key: {name: (array.dtype, tuple(array.shape), array.stype, array.data) for name, array in record.items()}
        for key, record in content.array_records.items()
    }
    metrics = {key: dict(record.items()) for key, record in content.metric_records.items()}
    configs = {key: dict(record.items()) for key, record in content.config_records.items()}
    return {"arrays": arrays, "metrics": metrics, "configs": configs}
