"""Every exported rule that the oracle knows gives the oracle's answer: the same choice, the same values."""

import inspect

import naive
import numpy as np
import pytest
import samples
from test_laws import OneNeighbourMore

import mixtailor as mt
from mixtailor.mixing.registry import snake
from mixtailor.testing import Case

KNOWN = [rule for rule in samples.rules() if hasattr(naive, snake(type(rule).__name__))]


def expected(rule: mt.Rule, rows: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The oracle called with whatever of the rule's parameters it takes."""
    oracle = getattr(naive, snake(type(rule).__name__))
    names = inspect.signature(oracle).parameters
    side = {"trusted": reference, "centre": reference, "radius": getattr(rule, "tau", None)}
    given = {name: getattr(rule, name, side.get(name)) for name in names if name not in ("x", "selection", "second")}
    return oracle(rows, **{name: value for name, value in given.items() if value is not None and name != "tolerance"})


@pytest.mark.parametrize("far", [None, 1e4, 1e8, 1e12, 1e20, 1e38])
@pytest.mark.parametrize("rule", [rule for rule in KNOWN if not isinstance(rule, mt.DnC)], ids=repr)
def test_oracle(rule: mt.Rule, far: float | None) -> None:
    """To 1e-6 of the honest spread, with no far row and with one at 1e4 to 1e38 spreads."""
    if far is not None and rule.tolerates(11) == 0:
        pytest.skip("tolerates no Byzantine update")
    if isinstance(rule, mt.Medoid) and far is not None and far >= 1e12:
        pytest.skip("sums of distances differ by less than float64 can hold; any honest row is right")
    case = Case.of(rule, d=23, seed=3)
    rows = case.rows.astype(np.float32)
    if far is not None:
        rows[-1] = far * (1 - 2 * (np.arange(rows.shape[1]) % 2))
    answer = case.ask(rule, rows).update
    apart = np.abs(answer - np.asarray(expected(rule, rows, case.reference.astype(np.float32)), np.float64)).max()
    assert apart <= 1e-6 * np.abs(case.rows - np.median(case.rows, axis=0)).max()


def test_one_neighbour_more_is_caught() -> None:
    """Krum over n - f - 1 neighbours is another rule, and the oracle tells them apart."""
    differ = 0
    for seed in range(20):
        case = Case.of(mt.Krum(2), d=5, seed=seed)
        differ += not np.allclose(case.ask(OneNeighbourMore(2), case.rows).update, naive.krum(case.rows, 2))
    assert differ >= 3
    assert all(
        np.allclose(case.ask(mt.Krum(2), case.rows).update, naive.krum(case.rows, 2))
        for case in (Case.of(mt.Krum(2), d=5, seed=seed) for seed in range(20))
    )
