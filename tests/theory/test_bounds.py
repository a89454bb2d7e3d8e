"""Generalized Krum's bounds against numbers by hand and against an adversary that climbs."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from mixtailor.theory import (
    C,
    Lambda,
    breakdown,
    dimension_factor,
    krum_bound,
    krum_coefficient,
    published_krum_coefficient,
)


def krum_choice(rows, f, p=2.0):
    """Krum by its definition: the n - f - 2 nearest other rows, squared l_p distances, ties to the lowest index."""
    squared = np.array([np.linalg.norm(rows - row, p, axis=1) for row in rows]) ** 2
    np.fill_diagonal(squared, np.inf)
    return int(np.sort(squared, axis=1)[:, : len(rows) - f - 2].sum(axis=1).argmin())


def broken_by(rows, f, p):
    """Squared distance of Krum's answer to the mean of the last n - f rows, over their mean squared spread."""
    honest = rows[f:]
    mean = honest.mean(axis=0)
    spread = ((honest - mean) ** 2).sum(axis=1).mean()
    return ((rows[krum_choice(rows, f, p)] - mean) ** 2).sum() / spread if spread > 0 else 0.0


def climb(n, f, d, p, seed, steps=1500):
    """The worst ratio that hill climbing over all rows finds; the Byzantine rows start as copies of each other."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, d))
    rows[:f] = rows[0]
    worst, size = broken_by(rows, f, p), 1.0
    for _ in range(steps):
        tried = rows.copy()
        if rng.random() < 0.5:
            tried[:f] += size * rng.standard_normal(d)
        else:
            tried[rng.integers(n)] += size * rng.standard_normal(d)
        if rng.random() < 0.05:
            source, target = rng.integers(n, size=2)
            tried[target] = tried[source]
        found = broken_by(tried, f, p)
        if found >= worst:
            rows, worst, size = tried, found, min(1.5 * size, 3.0)
        else:
            size = max(0.98 * size, 1e-4)
    return worst


def test_dimension_factor_of_the_papers_network():
    """21,840^(1 - 2/16) = exp(0.875 ln 21,840) = exp(0.875 x 9.99150) = exp(8.74256) = 6,264; p = 1 and inf give d."""
    assert dimension_factor(21_840, 16) == pytest.approx(6264, abs=0.5)
    assert dimension_factor(21_840, 1) == 21_840
    assert dimension_factor(21_840, math.inf) == 21_840
    assert dimension_factor(21_840, 2) == 1.0
    assert dimension_factor(16, 4) == pytest.approx(4.0)  # 16^(1/2)
    assert dimension_factor(16, 4 / 3) == pytest.approx(4.0)  # |1 - 3/2| = 1/2 as well


def test_infinity_is_the_limit():
    """Large p approaches p = inf."""
    assert Lambda(12, 2, 100, 1e9) == pytest.approx(Lambda(12, 2, 100, math.inf), rel=1e-7)


def test_C_by_hand():
    """n = 12, f = 2: 1 + 4/6 = 5/3. n = 7, f = 2, the edge: 1 + 4/1 = 5. f = 0: 1."""
    assert C(12, 2) == pytest.approx(5 / 3)
    assert C(7, 2) == 5.0
    assert C(3, 0) == 1.0


def test_iid_bound_by_hand():
    """n = 12, f = 2, sigma = 3, d = 16, p = 4: 2 x 9 x (1 + 4 x 5/3) = 18 x 23/3 = 138."""
    assert krum_bound(12, 2, 16, sigma=3.0, p=4.0).stated == pytest.approx(138.0)


def test_noniid_bound_by_hand():
    """n = 12, f = 2, sigma = 1, Delta = 2, d = 16, p = 4.

    C_1 = 6 + 2 (10 + 3 + 20/6) 4 = 6 + 8 x 49/3 = 410/3; C_2 = 4 + 8 x 10 x 4 = 324; Lambda = 20/3.
    Together 410/3 + 2160 = 6890/3.
    """
    assert krum_bound(12, 2, 16, sigma=1.0, delta=2.0, p=4.0).stated == pytest.approx(6890 / 3)


def test_equal_workers_have_the_larger_constants_of_the_second_theorem():
    """With Delta = 0 the paper's Theorem 2 gives 6 sigma^2 + 4 sigma^2 Lambda, more than Theorem 1."""
    assert krum_bound(12, 2, 5, sigma=1.0, delta=0.0).stated == pytest.approx(6 + 4 * 5 / 3)
    assert krum_bound(12, 2, 5, sigma=1.0).stated == pytest.approx(2 * (1 + 5 / 3))


def test_coefficients_by_hand():
    """n = 7, f = 2: published 6 (1 + 2/3) = 10; ours with h = 5, a = 2: (sqrt(30/8) + sqrt(3/2))^2 = 9.99342."""
    assert published_krum_coefficient(7, 2) == pytest.approx(10.0)
    assert krum_coefficient(7, 2) == pytest.approx(9.99342, abs=1e-5)
    # With d = 9 and p = inf only the first root grows, by 3: (3 sqrt(30/8) + sqrt(3/2))^2.
    assert krum_coefficient(7, 2, 9, math.inf) == pytest.approx((3 * math.sqrt(3.75) + math.sqrt(1.5)) ** 2)


@pytest.mark.parametrize(
    ("n", "f", "d", "p", "reached"),
    [(5, 1, 2, 2.0, 0.4), (7, 2, 2, 2.0, 0.55), (9, 3, 2, 2.0, 0.5), (7, 2, 3, 1.0, 0.4), (7, 2, 3, math.inf, 0.4)],
)
def test_no_adversary_exceeds_the_coefficient(n, f, d, p, reached):
    """Climbing over all rows stays below the coefficient, and comes near enough that half of it would be exceeded."""
    worst = max(climb(n, f, d, p, seed) for seed in range(4))
    assert worst <= krum_coefficient(n, f, d, p)
    assert worst >= reached * krum_coefficient(n, f, d, p)


@pytest.mark.parametrize(("n", "f"), [(7, 2), (9, 3), (13, 5)])
def test_expected_answer_against_an_adversary_who_sees_the_draw(n, f):
    """Honest rows are 0 or 1, one with probability q; for each outcome the Byzantine rows choose the worst place.

    The expectation over outcomes is exact, and so is sigma^2 = q (1 - q): no bound may be below the squared bias.
    """
    places = np.concatenate([np.linspace(0, 4, 41), 1 + np.sqrt(np.arange(40) / 4)])
    for q in (0.1, 0.2, 0.3, 0.5):
        expected = 0.0
        for ones in range(n - f + 1):
            honest = np.repeat([1.0, 0.0], [ones, n - f - ones])
            answers = []
            for place in places:
                rows = np.concatenate([np.full(f, place), honest])[:, None]
                answers.append(rows[krum_choice(rows, f), 0])
            expected += math.comb(n - f, ones) * q**ones * (1 - q) ** (n - f - ones) * max(answers)
        bound = krum_bound(n, f, 1, sigma=math.sqrt(q * (1 - q)))
        assert (expected - q) ** 2 <= min(bound.stated, bound.proved, bound.published)


def test_proved_bound_covers_the_stated_one_at_the_papers_size():
    """At n = 12, f = 2 the stated 16/3 follows from the proved 5.05; at n = 100, f = 40 the stated one stands alone."""
    assert "follows from the proved bound" in krum_bound(12, 2, 10, sigma=1.0).statement
    assert krum_bound(100, 40, 10, sigma=1.0).statement.endswith("chosen indices as fixed")


def test_vacuous_exactly_up_to_the_root_of_the_bound():
    """At |grad F|^2 = bound the answer may still be orthogonal; a little more and it descends."""
    bound = krum_bound(12, 2, 10, sigma=2.0)
    edge = math.sqrt(bound.proved)
    assert bound.is_vacuous(edge) and not bound.is_vacuous(edge * (1 + 1e-9))


def test_bound_prints_and_becomes_json():
    """A person reads a few lines, a machine reads the fields."""
    bound = krum_bound(12, 2, 10, sigma=2.0, delta=1.0, p=math.inf)
    assert "Krum(p=inf)" in str(bound) and "ours" in str(bound) and len(str(bound).splitlines()) == 5
    assert json.loads(json.dumps(asdict(bound)))["stated"] == bound.stated


def test_breakdown_at_the_edges():
    """Krum: 2f + 3 <= n. Bulyan: 4f + 3 <= n. Comed: 2f + 1 <= n."""
    assert [breakdown(n, lambda f: 2 * f + 3).f for n in (3, 4, 5, 12, 13)] == [0, 0, 1, 4, 5]
    assert [breakdown(n, lambda f: 4 * f + 3).f for n in (10, 11)] == [1, 2]
    assert breakdown(13, lambda f: 2 * f + 1).fraction == pytest.approx(6 / 13)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: C(6, 2), r"C needs at least 7 rows \(n >= 2f \+ 3\) and got 6"),
        (lambda: C(12, -1), "f >= 0"),
        (lambda: Lambda(12, 2, 10, 0.5), "p from 1 to infinity"),
        (lambda: Lambda(12, 2, 0, 2.0), "d >= 1"),
        (lambda: krum_bound(12, 2, 10, sigma=-1.0), "sigma >= 0 and got sigma = -1"),
        (lambda: krum_bound(12, 2, 10, sigma=math.nan), "finite"),
        (lambda: breakdown(2, lambda f: 2 * f + 3), "needs at least 3 rows"),
        (lambda: breakdown(5, lambda f: 1), "grow with f"),
    ],
)
def test_errors_say_what_is_needed(call, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()


def test_wrong_types_are_refused():
    """Half a row does not exist, and a word is no number."""
    with pytest.raises(TypeError, match="whole number"):
        C(12.5, 2)
    with pytest.raises(TypeError, match="sigma as a number"):
        krum_bound(12, 2, 10, sigma="loud")
