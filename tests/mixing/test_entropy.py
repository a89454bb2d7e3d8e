"""The sources of randomness: nobody outside can predict them, and what is drawn has exactly the odds asked for."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mixtailor.mixing.entropy import (
    Entropy,
    SeededEntropy,
    SystemEntropy,
    below,
    framed,
    generator_of,
    keyed_hash,
    pick,
    weights_of,
)

RULES = 64
DRAWS = 64_000
# A fair source fails a test at this level once in a million runs of the suite.
LEVEL = 1e-6


def chi_square(found: list[int], odds: list[float]) -> float:
    """The p-value of the found indices under the odds."""
    counts = np.bincount(found, minlength=len(odds))
    return float(stats.chisquare(counts, np.array(odds) / sum(odds) * len(found)).pvalue)


@pytest.mark.parametrize("source", [SystemEntropy(), SeededEntropy(11)], ids=["system", "seeded"])
def test_draws_are_uniform(source: Entropy) -> None:
    """64,000 draws over 64 rules pass a chi-square test, and so do pairs of consecutive draws over 8."""
    found = [source.index(None, RULES) for _ in range(DRAWS)]
    assert chi_square(found, [1.0] * RULES) > LEVEL
    pairs = [8 * (first % 8) + second % 8 for first, second in zip(found[::2], found[1::2], strict=True)]
    assert chi_square(pairs, [1.0] * 64) > LEVEL


@pytest.mark.parametrize("source", [SystemEntropy(), SeededEntropy(12)], ids=["system", "seeded"])
def test_unequal_draws_keep_their_odds(source: Entropy) -> None:
    """Probabilities that are no round binary fractions come out as given, and a zero never."""
    odds = [0.7, 0.1, 0.05, 0.05, 0.1]
    found = [source.index([*odds, 0.0], 6) for _ in range(20_000)]
    assert 5 not in found
    assert chi_square(found, odds) > LEVEL


def test_the_chi_square_notices_a_modulo_bias() -> None:
    """The yardstick itself: a byte modulo 60, the classical mistake, is caught at the same level and size."""
    rng = np.random.default_rng(0)
    assert chi_square(list(rng.integers(256, size=DRAWS) % 60), [1.0] * 60) < LEVEL


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(any))
def test_pick_is_exact(weights: list[int]) -> None:
    """Over all values of the bits it looks at, each index comes up exactly as often as its weight."""
    bits = (sum(weights) - 1).bit_length()
    found: Counter[int] = Counter()
    for value in range(2**bits):
        first = (value << (256 - bits)).to_bytes(32, "big")
        asked: list[int] = []

        def block(counter: int, first: bytes = first, asked: list[int] = asked) -> bytes:
            asked.append(counter)
            return first if counter == 0 else bytes(32)

        index = pick(weights, block)
        assert 0 <= index < len(weights)
        if len(asked) <= 1:
            found[index] += 1
        else:
            assert value >= sum(weights), "only what lies beyond the weights is rejected"
    assert [found[index] for index in range(len(weights))] == weights


@pytest.mark.parametrize("total", range(1, 70))
def test_below_accepts_each_integer_once(total: int) -> None:
    """Of all values of the first bits, those below the total are taken as they are and all others are thrown away."""
    bits = (total - 1).bit_length()
    for value in range(2**bits):
        first = (value << (256 - bits)).to_bytes(32, "big")
        found = below(total, lambda counter, first=first: first if counter == 0 else bytes(32))  # type: ignore[misc]  # bound now, not later
        assert found == (value if value < total else 0)


@pytest.mark.parametrize(("bits", "blocks"), [(0, 0), (1, 1), (256, 1), (257, 2), (280, 2), (512, 2), (513, 3)])
def test_below_takes_as_many_blocks_as_it_needs(bits: int, blocks: int) -> None:
    """A block has 256 bits, and the first of them are the number: all ones are the last of 2^bits integers."""
    asked: list[int] = []

    def block(counter: int) -> bytes:
        asked.append(counter)
        return b"\xff" * 32

    assert below(2**bits, block) == 2**bits - 1
    assert asked == list(range(blocks))


def test_pick_refuses_weights_without_a_winner() -> None:
    """All zero, none at all, or negative: an error, and not an endless rejection."""
    for weights in ([], [0, 0], [2, -1]):
        with pytest.raises(ValueError, match="A draw needs"):
            pick(weights, lambda counter: bytes(32))


def test_pick_counts_blocks_and_tries_again() -> None:
    """A rejected attempt goes on with the next counters, and weights beyond 256 bits take several blocks a time."""
    asked: list[int] = []

    def block(counter: int) -> bytes:
        asked.append(counter)
        return b"\xff" * 32 if counter < 4 else bytes(32)

    assert pick([1, 2**300], block) == 0
    assert asked == [0, 1, 2, 3, 4, 5]
    assert pick([1], lambda counter: pytest.fail("a pool of one needs no randomness")) == 0


@given(st.lists(st.floats(0, 1, allow_subnormal=True), min_size=1, max_size=20).filter(lambda found: sum(found) > 0))
def test_weights_are_the_probabilities_exactly(numbers: list[float]) -> None:
    """The proportions of the integer weights are those of the floats, as fractions, down to denormals."""
    shares = [number / math.fsum(numbers) for number in numbers]
    shares = [share if math.isfinite(share) else 0.0 for share in shares]
    if abs(math.fsum(shares) - 1) > 1e-9:
        return
    weights = weights_of(shares, len(shares))
    total = sum(Fraction(share) for share in shares)
    assert [Fraction(weight, sum(weights)) for weight in weights] == [Fraction(share) / total for share in shares]


def test_weights_of_equal_probabilities_are_those_of_none() -> None:
    """Ten times 0.1 is the uniform draw, though 0.1 is no binary fraction."""
    assert weights_of([0.1] * 10, 10) == weights_of(None, 10) == (1,) * 10
    assert weights_of(np.array([0.25, 0.75]), 2) == (1, 3)
    assert weights_of([1 - 2.0**-50, 2.0**-50], 2) == (2**50 - 1, 1)


@pytest.mark.parametrize(
    ("probabilities", "count", "error", "sentence"),
    [
        ([0.5, 0.6], 2, ValueError, r"must sum to one \(within 1e-09\) and sum to 1.1. Divide each by 1.1."),
        ([0.5, 0.5 - 1e-8], 2, ValueError, "must sum to one"),
        ([0.0, 0.0], 2, ValueError, "sum to 0.0.$"),
        ([1e308, 1e308], 2, ValueError, "sum to inf.$"),
        ([1.25, -0.25], 2, ValueError, "must not be negative, and rule 1 has -0.25"),
        ([math.nan, 1.0], 2, ValueError, "must be finite, and rule 0 has nan"),
        ([math.inf, 1.0], 2, ValueError, "must be finite, and rule 0 has inf"),
        ([0.5, 0.5], 3, ValueError, "one number for each of the 3 rules and got 2"),
        ([], 1, ValueError, "one number for each of the 1 rules and got 0"),
        ([0.25, 0.25], 2, ValueError, r"sum to 0\.5\. Divide each by 0\.5\.$"),
        ([0.0, 0.0], 2, ValueError, r"sum to 0\.0\.$"),
        ([1.7e308, 1.7e308], 2, ValueError, r"sum to inf\.$"),
        ("ab", 2, TypeError, "must be a sequence of 2 numbers and is 'ab'"),
        (b"ab", 2, TypeError, "must be a sequence of 2 numbers and is b'ab'"),
        (["0.5", "0.5"], 2, TypeError, "must be a sequence of 2 numbers"),
        ([[0.5], [0.5]], 2, TypeError, "must be a sequence of 2 numbers"),
        ([0.5 + 0j, 0.5], 2, TypeError, "must be a sequence of 2 numbers"),
        (0.5, 1, TypeError, "must be a sequence of 1 numbers and is 0.5"),
        ([10**400, 0], 2, TypeError, "must be a sequence of 2 numbers"),
        (None, 0, ValueError, "at least one rule and got 0"),
        (None, -1, ValueError, "at least one rule and got -1"),
        (None, 2.5, TypeError, "must be an integer and is 2.5"),
    ],
)
def test_wrong_probabilities_get_their_sentence(
    probabilities: object, count: object, error: type[Exception], sentence: str
) -> None:
    """What is needed, what arrived; and no key is used up by a refused draw."""
    source = SeededEntropy(0)
    with pytest.raises(error, match=sentence):
        source.index(probabilities, count)  # type: ignore[arg-type]  # wrong on purpose
    assert source.state()["counters"] == {}


def test_a_sum_within_the_tolerance_is_taken() -> None:
    """Probabilities as they come out of a division: off by less than 1e-9."""
    assert SystemEntropy().index([0.5, 0.5 + 1e-10], 2) in (0, 1)


def _seed_everything() -> None:
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  the very thing that must not matter
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)


def test_no_seed_reaches_the_system_source() -> None:
    """Seeding random, numpy and torch alike gives no two servers the same draws, and draws do not move their state."""
    _seed_everything()
    first = [SystemEntropy().index(None, RULES) for _ in range(40)]
    untouched = random.random(), np.random.random()  # noqa: NPY002
    _seed_everything()
    assert untouched == (random.random(), np.random.random())  # noqa: NPY002
    _seed_everything()
    assert first != [SystemEntropy().index(None, RULES) for _ in range(40)]


def untempered(output: int) -> int:
    """The word of Mersenne Twister's state that gave an output: each of its four shifts undone."""
    word = output ^ (output >> 18)
    word ^= (word << 15) & 0xEFC60000
    found = word
    for _ in range(5):
        found = word ^ ((found << 7) & 0x9D2C5680)
    word = found
    for _ in range(3):
        found = word ^ (found >> 11)
    return found


@pytest.mark.parametrize("source", [SystemEntropy(), SeededEntropy(13)], ids=["system", "seeded"])
def test_a_twister_rebuilt_from_outputs_predicts_random_and_not_ours(source: Entropy) -> None:
    """624 outputs give the state of `random`, and with it everything that follows; of ours they give nothing."""

    def predicted(words: Callable[[], int]) -> int:
        clone = random.Random()
        clone.setstate((3, (*(untempered(words()) for _ in range(624)), 624), None))
        return sum(clone.getrandbits(32) == words() for _ in range(100))

    victim = random.Random(4)
    assert predicted(lambda: victim.getrandbits(32)) == 100
    assert predicted(lambda: source.index(None, 2**32)) == 0


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
def test_forked_servers_draw_differently() -> None:
    """Two children forked from one warm parent share no draws; in a process of its own, for a fork of one thread."""
    script = """
import os, random
import numpy as np
from mixtailor.mixing.entropy import SystemEntropy
source = SystemEntropy()
random.seed(0); np.random.seed(0); source.index(None, 64); source.generator("draw").integers(9)
for child in range(2):
    if os.fork() == 0:
        print(source.key("draw").hex(), [source.index(None, 64) for _ in range(40)], flush=True)
        os._exit(0)
    os.wait()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    first, second = done.stdout.splitlines()
    assert first.split(" ", 1)[0] != second.split(" ", 1)[0]
    assert first.split(" ", 1)[1] != second.split(" ", 1)[1]


def test_the_same_seed_gives_the_attacker_one_round_in_m() -> None:
    """The attacker's stream agrees with the server's in about 1/M of the rounds, not in all."""
    server, attacker = SeededEntropy(5), SeededEntropy(5)
    rounds = 16_000
    agreed = sum(server.index(None, 16) == attacker.index(None, 16, "attacker") for _ in range(rounds))
    assert stats.binomtest(agreed, rounds, 1 / 16).pvalue > LEVEL


def test_seeded_keys_are_pinned() -> None:
    """The derivation may never change by accident: results of seeded experiments would."""
    source = SeededEntropy(7)
    root = SeededEntropy(7).__getstate__()[0]
    assert source.key("draw") == keyed_hash(root, "mixtailor key 1", "draw", 0)
    assert source.key("draw") == keyed_hash(root, "mixtailor key 1", "draw", 1)
    assert [SeededEntropy(7).spawn("pin").index(None, 1000), SeededEntropy(7).index(None, 1000)] == [243, 823]
    for seed, material in ((0, b""), (255, b"\xff"), (256, b"\x01\x00")):
        root = hashlib.sha256(framed("mixtailor seed 1") + framed("integer", material)).digest()
        assert SeededEntropy(seed).key("draw") == keyed_hash(root, "mixtailor key 1", "draw", 0)
    assert SeededEntropy(3).state() == {"source": "68d9f74b279e6c05", "counters": {}}, "checkpoints hold it"


def test_seeds_and_streams_are_all_different() -> None:
    """Integer and byte seeds, purposes, children and counters never meet."""
    sources = [SeededEntropy(0), SeededEntropy(1), SeededEntropy(256), SeededEntropy(b""), SeededEntropy(b"\x01")]
    sources += [SeededEntropy(1).spawn("a"), SeededEntropy(1).spawn("b"), SeededEntropy(1).spawn("a").spawn("a")]
    keys = [source.key(purpose) for source in sources for purpose in ("draw", "attacker", "", "é") for _ in range(3)]
    assert len(set(keys)) == len(keys) == 96
    assert {len(key) for key in keys} == {32}
    assert SeededEntropy(1).spawn("a").key("draw") == SeededEntropy(1).spawn("a").key("draw")


@pytest.mark.parametrize(
    ("seed", "error"), [(-1, ValueError), (True, ValueError), (1.5, TypeError), ("7", TypeError), (None, TypeError)]
)
def test_wrong_seeds_are_refused(seed: object, error: type[Exception]) -> None:
    """A seed is an integer that is not negative, or bytes."""
    with pytest.raises(error, match="seed must be an integer"):
        SeededEntropy(seed)  # type: ignore[arg-type]  # wrong on purpose


def test_a_purpose_is_text() -> None:
    """Bytes, None and lone surrogates are no purposes, for either source."""
    for source in (SystemEntropy(), SeededEntropy(0)):
        with pytest.raises(TypeError, match="A purpose must be a string"):
            source.key(b"draw")  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(ValueError, match="UTF-8"):
            source.key("\ud800")
    with pytest.raises(TypeError, match="A purpose must be a string"):
        SeededEntropy(0).spawn(b"worker")  # type: ignore[arg-type]  # wrong on purpose


def test_state_survives_json_and_resumes_every_stream() -> None:
    """A checkpoint of the counters continues all purposes where they were."""
    source = SeededEntropy(3)
    for purpose, times in {"draw": 3, "data": 1}.items():
        for _ in range(times):
            source.key(purpose)
    saved = json.loads(json.dumps(source.state()))
    expected = [source.key(purpose) for purpose in ("draw", "data", "dropout")]
    resumed = SeededEntropy(3)
    resumed.restore(saved)
    assert [resumed.key(purpose) for purpose in ("draw", "data", "dropout")] == expected
    assert saved["counters"] == {"draw": 3, "data": 1}
    for counter in (0, 2**63 - 1):
        resumed.restore({**saved, "counters": {"draw": counter}})
        assert resumed.state()["counters"] == {"draw": counter}


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state.pop("source"),
        lambda state: state.update(extra=1),
        lambda state: state.update(counters=[1]),
        lambda state: state["counters"].update(draw=-1),
        lambda state: state["counters"].update(draw=True),
        lambda state: state["counters"].update(draw=1.0),
        lambda state: state["counters"].update(draw=2**63),
        lambda state: state["counters"].update(data=-1),
        lambda state: state.update(source=SeededEntropy(4).state()["source"]),
    ],
)
def test_a_damaged_or_foreign_state_changes_nothing(change: Callable[[dict[str, object]], object]) -> None:
    """A state that was not saved by this seed is refused whole."""
    source = SeededEntropy(3)
    source.key("draw")
    state = json.loads(json.dumps(source.state()))
    change(state)
    with pytest.raises(ValueError, match=r"state|counters"):
        source.restore(state)
    assert source.state()["counters"] == {"draw": 1}
    with pytest.raises(ValueError, match="exactly the fields"):
        source.restore(None)  # type: ignore[arg-type]  # wrong on purpose


def test_pickling_equality_and_repr() -> None:
    """Both sources travel to other processes; the seeded one says everywhere that it is for experiments."""
    assert pickle.loads(pickle.dumps(SystemEntropy())) == SystemEntropy()  # noqa: S301  our own bytes
    assert hash(SystemEntropy()) == hash(SystemEntropy()) and SystemEntropy() != SeededEntropy(0)
    source = SeededEntropy(3)
    source.key("draw")
    twin = pickle.loads(pickle.dumps(source))  # noqa: S301  our own bytes
    assert twin == source and hash(twin) == hash(source) and twin.key("draw") == source.key("draw")
    source.key("draw")
    assert twin != source
    assert repr(SystemEntropy()) == "SystemEntropy()"
    for seeded in (source, source.spawn("worker 3"), SeededEntropy(b"seed")):
        assert "for experiments only" in repr(seeded)
    assert "FOR EXPERIMENTS ONLY" in (SeededEntropy.__doc__ or "")
    assert "worker 3" in repr(source.spawn("worker 3")) and "seed'" not in repr(SeededEntropy(b"seed"))


def test_threads_never_share_a_key() -> None:
    """Eight threads on one seeded source use each counter once."""
    source = SeededEntropy(9)
    found: list[bytes] = []

    def work() -> None:
        found.extend([source.key("draw") for _ in range(500)])

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    twin = SeededEntropy(9)
    assert set(found) == {twin.key("draw") for _ in range(4000)} and len(found) == 4000


def test_generators_use_the_whole_key() -> None:
    """Each bit of the key matters, and each generator is a fresh one."""
    numbers = {int(generator_of((1 << bit).to_bytes(32, "big")).integers(2**63)) for bit in range(256)}
    assert len(numbers) == 256
    source = SeededEntropy(1)
    assert source.generator("data").integers(2**63) != source.generator("data").integers(2**63)
    assert generator_of(SeededEntropy(1).key("data")).random() == SeededEntropy(1).generator("data").random()


@given(st.lists(st.binary(max_size=4), max_size=4), st.lists(st.binary(max_size=4), max_size=4))
def test_framing_is_one_to_one(first: list[bytes], second: list[bytes]) -> None:
    """No two lists of fields run together to the same bytes."""
    assert (framed(*first) == framed(*second)) == (first == second)
