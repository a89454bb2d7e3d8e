"""Defects found in other libraries: each must not be ours."""

import itertools
import subprocess
import sys

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.rules import Rule


def gradients(n: int = 12, d: int = 400, size: float = 1.0, seed: int = 0) -> np.ndarray:
    return (size * np.random.default_rng(seed).normal(size=(n, d))).astype(np.float32)


@pytest.mark.parametrize(
    "selection", [None, mt.Krum(2, p=1), mt.GeometricMedian(), mt.Comed(), mt.Mean()], ids=lambda rule: repr(rule)
)
def test_bulyan_picks_different_rows(selection: Rule | None) -> None:
    """theta = n - 2f picks, no row twice, duplicates among the rows or not."""
    rows = gradients()
    rows[5] = rows[6] = rows[7]
    for sent in (gradients(), rows):
        selected = mt.Bulyan(2, selection=selection).aggregate(sent).selected
        assert len(selected) == len(set(selected)) == 8


def test_geometric_median_is_not_the_mean_on_small_gradients() -> None:
    """A fixed smoothing of 1e-6 or so makes it the mean when gradients are of size 1e-3 and below."""
    for size in (1.0, 1e-3, 1e-9, 1e-20):
        rows = gradients(size=size)
        rows[:2] += np.float32(20 * size)
        median, mean = mt.GeometricMedian()(rows) / size, mt.Mean()(rows) / size
        assert np.linalg.norm(median - mean) > 10


@pytest.mark.parametrize("p", [1, 2, 3, 16])
def test_geometric_median_does_not_change_with_scale(p: float) -> None:
    rows = gradients().astype(np.float64)
    answer = mt.GeometricMedian(p=p)(rows)
    for factor in (2.0**-60, 2.0**60):
        assert np.allclose(mt.GeometricMedian(p=p)(rows * factor) / factor, answer, rtol=0, atol=1e-6)


def test_trimmed_mean_survives_one_entry_of_1e12() -> None:
    """A sum that the entry is subtracted from again has lost the honest part."""
    rows = gradients()
    sent = rows.copy()
    sent[3, 7] = 1e12
    expected = np.sort(sent.astype(np.float64), axis=0)[1:-1].mean(axis=0)
    assert np.abs(mt.TrimmedMean(1)(sent) - expected).max() < 1e-6


def test_distances_of_weights_that_differ_by_little() -> None:
    """float32 weights of size 1 that differ by 1e-4: a Gram matrix in float32 loses all of it."""
    rng = np.random.default_rng(1)
    rows = (1 + 1e-4 * rng.normal(size=(8, 3000))).astype(np.float32)
    exact = rows.astype(np.float64)
    expected = np.linalg.norm(exact[:, None] - exact[None, :], axis=2)
    from mixtailor.intake import receive
    from mixtailor.updates import Updates

    found = Updates.arrived(receive(rows)).distances(2.0)
    off = ~np.eye(8, dtype=bool)
    assert (np.abs(found - expected)[off] / expected[off]).max() < 1e-7


def test_krum_with_near_duplicates_picks_as_exact_arithmetic_does() -> None:
    """Scores that differ in the eighth digit, settled with fractions."""
    from fractions import Fraction

    for seed in range(20):
        rng = np.random.default_rng(seed)
        rows = (1 + 1e-6 * rng.integers(-3, 4, size=(7, 5))).astype(np.float32)
        exact = [[Fraction(float(value)) for value in row] for row in rows]
        scores = []
        for i in range(7):
            others = sorted(
                sum((a - b) ** 2 for a, b in zip(exact[i], exact[j], strict=True)) for j in range(7) if j != i
            )
            scores.append(sum(others[: 7 - 1 - 2]))
        best = mt.Krum(1).aggregate(rows).selected[0]
        assert scores[best] == min(scores)


def pool_without_equal_rules() -> list[Rule]:
    return [rule for rule in mt.paper_pool(2) if not isinstance(rule, mt.Comed)] + [mt.Comed()]


@pytest.mark.filterwarnings("ignore:GeometricMedian:RuntimeWarning")  # an early stop is a fair answer here
def test_rules_of_the_pool_differ() -> None:
    """For each pair of the paper's rules (the comeds, which are equal, count once) some input tells them apart."""
    rules = pool_without_equal_rules()
    pairs = set(itertools.combinations(range(len(rules)), 2))
    for seed in range(400):
        rng = np.random.default_rng(seed)
        rows = rng.standard_t(2, size=(12, 6)) * np.exp(rng.normal(size=6))
        if seed % 4 == 1:  # clusters part the phases of Bulyan, which agree on noise
            rows[: 4 + seed % 3] += 3 * rng.normal(size=6)
            rows[-2:] = rows[-1] + 1e-3 * rng.normal(size=(2, 6)) + 5 * rng.normal(size=6)
        elif seed % 4 > 1:  # m entries of m^(-1 / (p + 1/2)): of equal length between l_p and l_(p + 1)
            rows = np.zeros((12, 64))
            for row in rows:
                m = rng.integers(1, 65)
                row[rng.choice(64, size=m, replace=False)] = rng.choice([-1, 1], size=m) * m ** (-1 / (seed % 15 + 1.5))
        answers = {place: rules[place](rows) for place in {place for pair in pairs for place in pair}}
        spread = np.abs(rows).max()
        pairs -= {(a, b) for a, b in pairs if np.abs(answers[a] - answers[b]).max() > 1e-4 * spread}
        if not pairs:
            return
    pytest.fail(f"never told apart: {[(rules[a], rules[b]) for a, b in sorted(pairs)[:5]]}")


@pytest.mark.parametrize(
    "kind", [lambda p: mt.Krum(2, p=p), lambda p: mt.GeometricMedian(p=p), lambda p: mt.Medoid(p=p)]
)
def test_norms_give_three_answers(kind) -> None:
    """p = 1 looks at all coordinates, p = 16 at the largest alone, p = 2 in between.

    Three groups around the origin: rows off by much in a single coordinate are near in l_1 and far in l_16; rows off by
    a little in all coordinates are near in l_16 and far in l_1.
    """
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = np.zeros((9, 64))
        for row, spread_over in zip(rows, (1, 1, 1, 8, 8, 8, 64, 64, 64), strict=True):
            where = rng.choice(64, size=spread_over, replace=False)
            row[where] = rng.choice([-1, 1], size=spread_over) * spread_over ** -rng.uniform(0.3, 0.7)
        answers = [kind(p)(rows) for p in (1, 2, 16)]
        if all(np.abs(a - b).max() > 1e-3 for a, b in itertools.combinations(answers, 2)):
            return
    pytest.fail("p = 1, 2 and 16 never gave three answers")


@pytest.mark.parametrize("library", ["random", "numpy", "torch"])
def test_the_draw_does_not_follow_from_a_seed(library: str) -> None:
    """Two processes that seed alike draw different rules."""
    if library == "torch":
        pytest.importorskip("torch")
    seed = {"random": "random.seed", "numpy": "numpy.random.seed", "torch": "torch.manual_seed"}[library]
    program = (
        f"import {library}, numpy, warnings; warnings.simplefilter('ignore')\n"
        f"{seed}(0)\n"
        "import mixtailor as mt\n"
        "rule = mt.MixTailor(mt.paper_pool(1))\n"
        "rows = numpy.random.default_rng(0).normal(size=(9, 3))\n"
        "places = []\n"
        "for _ in range(12):\n"
        f"    {seed}(0); places.append(rule.aggregate(rows).facts['place'])\n"
        "print(places)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120).stdout
        for _ in range(2)
    ]
    assert runs[0] != runs[1]
    assert len(set(eval(runs[0]))) > 3  # noqa: S307  # our own output
