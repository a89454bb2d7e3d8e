"""Draws of an audit: the documented formula, its odds, and what the number of rows leaves of a pool."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path

import numpy as np
import pytest
from mixing.audit_logs import POOL, entries, rows
from scipy import stats

from mixtailor.mixing.audit import AuditTrail, verify
from mixtailor.mixing.audit.derivation import drawn_index, preaggregation_key
from mixtailor.mixing.entropy import weights_of

LEVEL = 1e-6


def test_the_draw_is_the_documented_formula(log: Path, tmp_path: Path) -> None:
    """Index and key follow from secret, run, round, root and absent workers by HMAC-SHA256, here written out."""
    trail = AuditTrail.start(log, POOL[:4], run="r")
    draw = trail.draw(rows(0), round=6, pool=POOL[:4])
    trail.release()
    secret = bytes.fromhex(json.loads((tmp_path / "run.audit.secret").read_text())["secret"])
    root = bytes.fromhex(str(entries(log)[1]["root"]))

    def field(data: bytes) -> bytes:
        return len(data).to_bytes(8, "big") + data

    given = hashlib.sha256(b"\x02" + field(root)).digest()
    message = field(b"r") + field((6).to_bytes(8, "big")) + field(given)
    block = hmac.digest(secret, field(b"mixtailor audited draw 2") + message + field(bytes(8)), "sha256")
    assert draw.index == block[0] >> 6, "four rules take two bits and no rejection"
    assert draw.key == hmac.digest(secret, field(b"mixtailor audited key 2") + message, "sha256")


def test_audited_draws_are_uniform(log: Path, quick: None) -> None:
    """64,000 audited draws over 64 rules pass a chi-square test."""
    pool = [f"rule {number}" for number in range(64)]
    trail = AuditTrail.start(log, pool)
    found = [trail.draw({"w": number.to_bytes(32, "big")}, pool=pool).index for number in range(64_000)]
    trail.release()
    assert stats.chisquare(np.bincount(found, minlength=64)).pvalue > LEVEL


def test_audited_draws_keep_unequal_odds(log: Path, quick: None) -> None:
    """Unequal probabilities, among all rules and among those that the number of rows allows."""
    odds = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    trail = AuditTrail.start(log, POOL, odds, needs=[1, 5, 1, 1, 1])
    found = [trail.draw(rows(number), pool=POOL, probabilities=odds).index for number in range(8000)]
    assert stats.chisquare(np.bincount(found, minlength=5), odds * 8000).pvalue > LEVEL
    fewer = [POOL[position] for position in (0, 2, 3, 4)]
    shares = odds[[0, 2, 3, 4]] / 0.7
    found = [trail.draw(rows(n, 4), pool=fewer, probabilities=shares).index for n in range(8000, 16_000)]
    assert stats.chisquare(np.bincount(found, minlength=4), shares * 8000).pvalue > LEVEL
    trail.close()
    assert verify(log, pool=POOL, probabilities=odds).ok


def test_serial_draws_do_not_depend_on_the_run_before() -> None:
    """Neighbouring rounds, roots and runs give unrelated draws and keys."""
    weights, root = weights_of(None, 64), bytes(32)
    found = {
        preaggregation_key(secret, run, round, root)
        for secret in (bytes(32), b"1" * 32)
        for run in ("a", "b")
        for round in range(50)
    }
    assert len(found) == 200
    indices = [drawn_index(bytes(32), "a", round, root, weights) for round in range(6400)]
    pairs = [8 * (first % 8) + second % 8 for first, second in zip(indices[::2], indices[1::2], strict=True)]
    assert stats.chisquare(np.bincount(pairs, minlength=64)).pvalue > LEVEL


def test_two_runs_have_different_secrets(tmp_path: Path) -> None:
    """The same pool, rows and run name twice: other secrets, other draws."""
    found = []
    for name in ("one", "two"):
        with AuditTrail.start(tmp_path / name, POOL, run="r") as trail:
            found.append([trail.draw(rows(number), pool=POOL).index for number in range(60)])
    assert found[0] != found[1]


def test_the_number_of_rows_decides_what_may_be_drawn(log: Path, quick: None) -> None:
    """With fewer rows than a rule needs it is never drawn, and the index is into the pool handed over."""
    with AuditTrail.start(log, POOL, needs=[5, 1, 1, 1, 7]) as trail:
        fewer = POOL[1:4]
        short = {trail.draw(rows(number, 4), pool=fewer).index for number in range(60)}
        whole = {trail.draw(rows(number, 4), pool=POOL).index for number in range(60, 120)}
        assert short == {0, 1, 2} and whole == {1, 2, 3}
        assert {trail.draw(rows(number, 7), pool=POOL).index for number in range(120, 220)} == set(range(5))
        with pytest.raises(ValueError, match="not the committed one"):
            trail.draw(rows(0, 7), pool=fewer)
    assert verify(log, pool=POOL).ok


def test_a_pool_that_the_rows_leave_empty(tmp_path: Path) -> None:
    """No rule left, or none with a chance: a sentence and nothing written."""
    trail = AuditTrail.start(tmp_path / "a", POOL[:2], needs=[5, 5])
    with pytest.raises(ValueError, match="No rule of the pool that 4 rows allow"):
        trail.draw(rows(0, 4), pool=POOL[:2])
    trail.release()
    trail = AuditTrail.start(tmp_path / "b", POOL[:2], [1.0, 0.0], needs=[5, 1])
    with pytest.raises(ValueError, match="No rule of the pool that 4 rows allow"):
        trail.draw(rows(0, 4), pool=POOL[:2], probabilities=[1.0, 0.0])
    trail.release()


def test_rules_are_named_by_their_repr_and_asked_for_their_rows(log: Path) -> None:
    """Objects join by `repr` and `min_rows`; a function named by its address is refused: nobody could check it."""

    class Rule:
        def __repr__(self) -> str:
            return "Rule(f=2)"

        def min_rows(self) -> int:
            return 7

    with pytest.raises(ValueError, match="named by its address"):
        AuditTrail.start(log, [Rule(), rows])
    with AuditTrail.start(log, [Rule(), "mean"]) as trail:
        trail.draw(rows(0), pool=["mean"])
        trail.draw(rows(1, 7), pool=[Rule(), "mean"])
    assert entries(log)[0]["needs"] == [7, 1] and entries(log)[0]["pool"] == ["Rule(f=2)", "mean"]
