"""Private aggregation: three real parties on loopback, honest and hostile clients."""

import functools
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.engines.private import Encoding, LocalParties, Outcome, Party, PartyError, check_private, join, split
from mixtailor.engines.private.__main__ import _serve
from mixtailor.engines.private.encoding import LONGEST, PROJECTED, PROJECTIONS
from mixtailor.engines.private.party import _projection
from mixtailor.engines.private.programs import _network
from mixtailor.engines.private.shares import held

# An environment with SPU, which needs numpy below 2 and so is not the one that tests run in: `make test-private`.
PYTHON = os.environ.get("MIXTAILOR_PRIVATE_PYTHON") or (sys.executable if importlib.util.find_spec("spu") else None)
with_parties = pytest.mark.skipif(PYTHON is None, reason="needs SPU: make test-private")

D, N, F = 400, 9, 2
ENCODING = Encoding(radius=60.0, d=D)


def _updates(seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    rows = random.normal(size=(N, D)) + 0.5
    rows[0] = rows[1] = -2.0
    return rows


def _parties(rule: str, *, opened: bool = False, timeout: float = 120.0) -> LocalParties:
    f = None if rule == "mean" else F  # which tolerates none
    return LocalParties(ENCODING, rule, f=f, opened=opened, timeout=timeout, python=PYTHON)


# Without the engine.


class Pretended:
    """A party whose rounds are numbered, in place of one with the engine."""

    def __init__(self) -> None:
        self.round, self.clients = 0, {}

    def put(self, client: str, payload: bytes) -> None:
        if client in self.clients:
            raise ValueError(f"{client} has sent a share for this round already.")
        self.clients[client] = payload

    def aggregate(self) -> Outcome:
        self.round += 1
        clients, self.clients = sorted(self.clients), {}
        return Outcome(np.full(1, self.round, np.uint64), 1.0, f"round {self.round}", clients)


def test_a_second_share_has_no_reply() -> None:
    """It had one, which was read in place of the round's: every later round then returned the result before it."""
    share = b'{"put": "mal", "bytes": 3}\nabc'
    requests = io.BytesIO(share + share + b'{"aggregate": true}\n' + share + b'{"aggregate": true}\n')
    replies = io.BytesIO()
    _serve(Pretended(), requests, replies)  # type: ignore[arg-type]  # in place of a party
    replies.seek(0)
    told = []
    for line in iter(replies.readline, b""):
        told.append(json.loads(line))
        replies.read(told[-1]["bytes"])
    assert [message["rule"] for message in told] == ["round 1", "round 2"]
    assert [message["clients"] for message in told] == [["mal"], ["mal"]]


def test_an_f_that_no_number_of_clients_allows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Mean\(\) tolerates no Byzantine update, and f = 1"):
        LocalParties(ENCODING, "mean", f=1, python="/bin/false")


def test_a_round_with_too_few_clients_for_the_stated_f_is_refused() -> None:
    """Comed takes no f, and the one that was stated was forgotten."""
    party = Party.__new__(Party)
    party.encoding, party.rule, party.f = ENCODING, mt.Comed(), 3
    with pytest.raises(ValueError, match=r"Comed\(\) tolerates 2 Byzantine updates of 5, and f = 3\. .*n >= 2f \+ 1"):
        party._decided([held(split(np.zeros(D))[0], D)] * 5, None, 0, b"seed")  # type: ignore[arg-type]  # not reached


def test_two_shares_say_nothing() -> None:
    """Shares of the same value differ in each call, and any two summands are as random for zero as for anything."""
    first, second = split(np.zeros(2000, np.int64)), split(np.full(2000, 7))
    for payload in (*first, *second):
        bits = np.unpackbits(np.frombuffer(payload, np.uint8))
        assert abs(bits.mean() - 0.5) < 0.01
    assert len({*first, *second}) == 6


@pytest.mark.parametrize("value", [0, 1, -1, 2**62, -(2**63), 2**63 - 1])
def test_shares_join(value: int) -> None:
    """Every 64-bit integer survives."""
    payloads = split(np.array([value, 3]))
    assert join([np.frombuffer(payload, np.uint64)[:2] for payload in payloads]).tolist() == [value, 3]


def test_sums_on_shares_are_sums() -> None:
    """Public weights, negative ones too, apply to summands."""
    rows = np.array([[5, -7], [100, 2], [-3, 2**40]])
    weights = np.array([3, -2, 1 << 30])
    payloads = [split(row) for row in rows]
    parts = []
    for party in range(3):
        held_rows = [held(payload[party], 2) for payload in payloads]
        stacked = type(held_rows[0])(*(np.stack([row[k] for row in held_rows]) for k in (0, 1)))
        parts.append(stacked.combined(weights).first)
    assert join(parts).tolist() == (weights @ rows).tolist()


def test_projections_are_modulo_two_to_the_64() -> None:
    """By limbs in float64 as by integers."""
    random = np.random.default_rng(0)
    summands = random.integers(0, 2**64, size=(3, 1000), dtype=np.uint64)
    signs = random.integers(-1, 2, size=(1000, 5))
    expected = (summands.astype(object) @ signs.astype(object)) % 2**64
    assert _projection(summands, signs.astype(np.float64)).tolist() == expected.tolist()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 13])
def test_network_sorts(n: int) -> None:
    """Every sequence of zeros and ones, and so every sequence (the zero-one principle)."""
    for bits in range(1 << n):
        values = [bits >> place & 1 for place in range(n)]
        for low, high in _network(n):
            assert len({*low, *high}) == 2 * len(low)
            for i, j in zip(low, high, strict=True):
                values[i], values[j] = min(values[i], values[j]), max(values[i], values[j])
        assert values == sorted(values)


def test_encoding_is_near() -> None:
    """Half a unit for each coordinate, and never longer than a party accepts, also for updates far too long."""
    random = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 1e300):
        update = random.normal(size=D) * scale
        values = ENCODING.encode(update)
        assert int((values.astype(object) ** 2).sum()) <= LONGEST**2
        clipped = update * min(1.0, 60.0 / (np.linalg.norm(update / scale) * scale))
        assert np.abs(ENCODING.decode(values) - clipped).max() <= 0.51 * ENCODING.unit


def test_honest_projections_stay_within() -> None:
    """The longest honest update: its projections are some ten standard deviations within the bound."""
    random = np.random.default_rng(0)
    for update in (np.eye(1, D)[0], np.ones(D), random.normal(size=D)):
        values = ENCODING.encode(1e9 * update).astype(np.float64)
        signs = random.choice([-1, 0, 0, 1], size=(D, 50 * PROJECTIONS))
        assert np.abs(values @ signs).max() < PROJECTED


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (mt.Krum(f=2), "one client's update"),
        (mt.MultiKrum(f=2, m=1), "one client's update"),
        (mt.CAF(f=2), "stay hidden by default"),
        (mt.MixTailor([mt.Comed(), mt.GeometricMedian()]), "stay hidden by default"),
    ],
)
def test_refused(rule: mt.Rule, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_private(rule)


def test_columnwise_rules_have_no_weights() -> None:
    with pytest.raises(ValueError, match="each coordinate by itself"):
        check_private(mt.Meamed(f=2), opened=True)


# With three parties.


@pytest.fixture(scope="module")
def parties() -> Iterator[LocalParties]:
    with _parties("multi_krum") as found:
        yield found


@with_parties
@pytest.mark.parametrize("seed", [0, 1])
def test_multi_krum_as_in_the_clear(parties: LocalParties, seed: int) -> None:
    rows = _updates(seed)
    assert np.allclose(parties(rows), mt.MultiKrum(f=F)(rows), atol=2 * ENCODING.unit)


@with_parties
@pytest.mark.parametrize(
    ("text", "opened"),
    [
        ("comed", False),
        ("trimmed_mean", False),
        ("mean", False),
        ("nnm >> geometric_median", True),
        ("clipping(radius=15) >> geometric_median", True),  # a radius is a length, not a number of units
        ("caf", True),
    ],
)
def test_rules_as_in_the_clear(text: str, opened: bool) -> None:
    rows = _updates()
    with _parties(text, opened=opened) as found:
        expected = mt.make_rule(text, f=F)(rows)
        assert np.allclose(found(rows), expected, atol=4 * ENCODING.unit)


@with_parties
def test_randomness_in_front_of_a_rule_is_shared() -> None:
    """Were buckets drawn by each party for itself, the summands would make no sense together."""
    rows = _updates()
    with _parties("bucketing(size=1) >> geometric_median", opened=True) as found:
        assert np.allclose(found(rows), mt.GeometricMedian()(rows), atol=1e-3)
    with _parties("bucketing(size=2) >> geometric_median", opened=True) as found:
        assert np.abs(found(rows)).max() < 5


@with_parties
def test_a_draw_that_no_party_controls() -> None:
    """Both rules are drawn, and each result is the one of the rule that is reported."""
    rows, drawn = _updates(), set()
    with _parties("mixtailor(multi_krum, comed)") as found:
        for _ in range(12):
            for place, row in enumerate(rows):
                found.send(f"client-{place}", split(ENCODING.encode(row)))
            result = found.aggregate()
            drawn.add(result.rule)
            rule = mt.MultiKrum(f=F) if result.rule.startswith("Multi") else mt.Comed()
            assert np.allclose(result.update, rule(rows), atol=2 * ENCODING.unit)
    assert drawn == {"MultiKrum(f=2)", "Comed()"}


@with_parties
def test_hostile_shares_are_removed_by_name(parties: LocalParties) -> None:
    """Wrong sizes, shares that do not fit together, wrap-around, and clients that reach some parties only."""
    rows = _updates()
    for place in range(2, N):
        parties.send(f"client-{place}", split(ENCODING.encode(rows[place])))
    first, second, third = split(ENCODING.encode(rows[0]))
    parties.send("forged", (first, second[:8] + bytes(8) + second[16:], third))
    parties.send("short", (first, second[:-8], third))
    result = parties.aggregate()
    assert set(result.removed) == {"forged", "short"} and "fit together" in result.removed["forged"]
    assert np.allclose(result.update, mt.MultiKrum(f=F)(rows[2:]), atol=2 * ENCODING.unit)


@with_parties
@pytest.mark.parametrize("kind", ["one coordinate", "wrapped square", "half of the ring", "all a little", "too long"])
def test_the_range_attack(parties: LocalParties, kind: str) -> None:
    """A far update whose squared norm wraps around to a small number would be among the nearest."""
    rows = _updates()
    values = ENCODING.encode(rows[2])
    if kind == "one coordinate":
        values[3] = 1 << 40
    elif kind == "wrapped square":
        values[:] = 0
        values[0] = 1 << 32  # whose square is zero in the ring
    elif kind == "half of the ring":
        values[5] = -(1 << 63)
    elif kind == "all a little":
        values[:] = 1 << 30
    else:
        values = 3 * ENCODING.encode(1e9 * rows[2])
    parties.send("hostile", split(values))
    for place in range(2, N):
        parties.send(f"client-{place}", split(ENCODING.encode(rows[place])))
    result = parties.aggregate()
    assert list(result.removed) == ["hostile"] and "range" in result.removed["hostile"]
    assert np.allclose(result.update, mt.MultiKrum(f=F)(rows[2:]), atol=2 * ENCODING.unit)


@with_parties
def test_too_many_faults_are_refused(parties: LocalParties) -> None:
    for place, row in enumerate(_updates()):
        payloads = split(ENCODING.encode(row))
        parties.send(f"client-{place}", payloads if place > 2 else (*payloads[:2], b""))
    with pytest.raises(ValueError, match="3 of 9 updates prove a fault, and f = 2"):
        parties.aggregate()
    rows = _updates()
    assert np.allclose(parties(rows), mt.MultiKrum(f=F)(rows), atol=2 * ENCODING.unit)  # the next round


@with_parties
def test_a_party_that_dies() -> None:
    """With all shares in: nothing is opened, the sentence says which party ended, and the round can be repeated."""
    rows = _updates()
    with _parties("multi_krum", timeout=20.0) as found:
        for place, row in enumerate(rows):
            found.send(f"client-{place}", split(ENCODING.encode(row)))
        found.processes[1].kill()
        found.processes[1].wait()
        with pytest.raises(PartyError, match="party 1 has ended"):
            found.aggregate()
    with _parties("multi_krum") as again:
        assert np.allclose(again(rows), mt.MultiKrum(f=F)(rows), atol=2 * ENCODING.unit)


@with_parties
def test_a_client_that_dies(parties: LocalParties) -> None:
    """One that reached two parties, or one, is absent: no fault, named, and the others are aggregated."""
    rows = _updates()
    for place in range(2, N):
        parties.send(f"client-{place}", split(ENCODING.encode(rows[place])))
    for name, row, reached in (("one", rows[0], 1), ("two", rows[1], 2), ("also one", rows[1], 1)):
        for process, payload in list(zip(parties.processes, split(ENCODING.encode(row)), strict=True))[:reached]:
            parties._write(process, json.dumps({"put": name, "bytes": len(payload)}).encode() + b"\n" + payload)
    result = parties.aggregate()
    assert result.removed == dict.fromkeys(["also one", "one", "two"], "its shares did not reach all parties")
    assert np.allclose(result.update, mt.MultiKrum(f=F)(rows[2:]), atol=2 * ENCODING.unit)


def _certificates(folder: Path, name: str) -> tuple[str, str, str]:
    """A certificate for 127.0.0.1, its key, and the authority that signed it."""
    run = functools.partial(subprocess.run, cwd=folder, check=True, capture_output=True)
    subject, made = ["-subj", f"/CN={name}"], ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    run(["openssl", "req", "-x509", *made, "-keyout", f"{name}.ca.key", "-out", f"{name}.ca", *subject])
    run(["openssl", "req", *made, "-keyout", f"{name}.key", "-out", f"{name}.req", *subject])
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    sign = [
        "openssl",
        "x509",
        "-req",
        "-in",
        f"{name}.req",
        "-CA",
        f"{name}.ca",
        "-CAkey",
        f"{name}.ca.key",
        "-days",
        "2",
    ]
    run([*sign, "-CAcreateserial", "-extfile", "names", "-out", f"{name}.crt"])
    certificate, key, authority = (str(folder / f"{name}.{kind}") for kind in ("crt", "key", "ca"))
    return certificate, key, authority


@with_parties
@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl")
def test_parties_over_tls(tmp_path: Path) -> None:
    """With certificates the parties compute the same; with an authority that signed none of them they do not start."""
    certificate, key, authority = _certificates(tmp_path, "ours")
    rows = _updates()
    with LocalParties(ENCODING, "multi_krum", f=F, python=PYTHON, certificates=(certificate, key, authority)) as found:
        assert np.allclose(found(rows), mt.MultiKrum(f=F)(rows), atol=2 * ENCODING.unit)
    other = _certificates(tmp_path, "theirs")[2]
    with pytest.raises((PartyError, ValueError)):
        LocalParties(ENCODING, "comed", f=F, timeout=3.0, python=PYTHON, certificates=(certificate, key, other))


@with_parties
def test_a_party_says_what_is_missing(tmp_path: Path) -> None:
    """An interpreter without SPU."""
    (tmp_path / "spu.py").write_text("raise ImportError('no spu')")
    command = [str(PYTHON), "-m", "mixtailor.engines.private", "--rank", "0", "--addresses", "a,b,c", "--radius", "1"]
    done = subprocess.run(
        [*command, "--d", "3", "--rule", "comed"],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        check=False,
    )
    assert "mixtailor[private]" in json.loads(done.stdout)["error"]
