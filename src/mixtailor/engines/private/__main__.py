"""``python -m mixtailor.engines.private``: one party, driven over its standard input and output.

`LocalParties` starts it. A request is a line of JSON, for a share followed by its bytes. A reply is a line of JSON, for
a result followed by its summand. Shares have no reply: one that nobody reads would be taken for that of the next round.
"""

import argparse
import contextlib
import json
import os
import sys
from typing import BinaryIO

from mixtailor.engines.private.encoding import Encoding
from mixtailor.engines.private.party import Party
from mixtailor.mixing.registry import make_rule


def main() -> int:
    """Serve until standard input ends."""
    parser = argparse.ArgumentParser("python -m mixtailor.engines.private", description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--addresses", required=True, help="host:port of the three parties, with commas between them")
    parser.add_argument("--radius", type=float, required=True)
    parser.add_argument("--d", type=int, required=True)
    parser.add_argument("--rule", required=True)
    parser.add_argument("--f", type=int)
    parser.add_argument("--opened", action="store_true")
    parser.add_argument("--timeout", type=float, default=60.0)
    parser.add_argument("--certificates", nargs=3, metavar=("CERTIFICATE", "KEY", "AUTHORITY"))
    given = parser.parse_args()
    # The engine writes its log to file descriptor 1: replies get a descriptor of their own.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        party = Party(
            given.rank,
            given.addresses.split(","),
            Encoding(given.radius, given.d),
            make_rule(given.rule, f=given.f),
            f=given.f,
            opened=given.opened,
            timeout=given.timeout,
            certificates=tuple(given.certificates) if given.certificates else None,
        )
    except (ValueError, RuntimeError) as error:
        _reply(replies, {"error": str(error)})
        return 1
    _reply(replies, {"ready": given.rank})
    _serve(party, sys.stdin.buffer, replies)
    return 0


def _serve(party: Party, requests: BinaryIO, replies: BinaryIO) -> None:
    for line in iter(requests.readline, b""):
        request = json.loads(line)
        if "put" in request:
            payload = requests.read(int(request["bytes"]))
            with contextlib.suppress(ValueError):  # a second share of a client: the first counts, at all three parties
                party.put(str(request["put"]), payload)
            continue
        try:
            outcome = party.aggregate()
            content = outcome.summand.tobytes()
            told = {key: getattr(outcome, key) for key in ("divisor", "rule", "clients", "removed", "seconds")}
            _reply(replies, {**told, "bytes": len(content)}, content)
        except (ValueError, RuntimeError) as error:  # what the engine raises when another party does not reply
            _reply(replies, {"error": str(error).splitlines()[0]})


def _reply(replies: BinaryIO, message: dict[str, object], content: bytes = b"") -> None:
    replies.write(json.dumps(message).encode() + b"\n" + content)
    replies.flush()


if __name__ == "__main__":
    sys.exit(main())
