"""The published robustness coefficients, worked out by hand from their formulas."""

import math

import pytest

from mixtailor.preaggregation import ARC, NNM
from mixtailor.rules import (
    CTMA,
    MDA,
    SMEA,
    Aksel,
    Comed,
    GeometricMedian,
    Krum,
    Meamed,
    Mean,
    MultiKrum,
    Phocas,
    Rule,
    TrimmedMean,
)

CUBE = 5 ** (1 / 3)  # d^|1 - 2/p| for d = 5 and p = 3


@pytest.mark.parametrize(
    ("rule", "two_of_twelve", "one_of_eleven", "four_of_twelve"),
    [
        (Krum(1), 6 * 10 / 8, 6 * 10 / 9, 6 * 8 / 4),
        (Krum(1, p=3), CUBE * 6 * 10 / 8, CUBE * 6 * 10 / 9, CUBE * 6 * 8 / 4),
        (Krum(1, p=1), 5 * 6 * 10 / 8, 5 * 6 * 10 / 9, 5 * 6 * 8 / 4),
        (Krum(1, p=math.inf), 5 * 6 * 10 / 8, 5 * 6 * 10 / 9, 5 * 6 * 8 / 4),
        (Krum(1, power=1), None, None, None),
        (MultiKrum(1, m=1), 6 * 10 / 8, 6 * 10 / 9, 6 * 8 / 4),
        (MultiKrum(1, m=2), 46 / 7, 44 / 8, 42 / 3),
        (MultiKrum(1), 4 / 10 * (1 + 44 / 7), 2 / 10 * (1 + 42 / 8), 8 / 8 * (1 + 40 / 3)),
        (CTMA(1), 8 / 10 * (1 + 4 * (10 / 8) ** 2), 4 / 10 * (1 + 4 * (10 / 9) ** 2), 16 / 8 * (1 + 4 * 2**2)),
        (CTMA(1, rule=Comed()), 8 / 10 * 2, 4 / 10 * 2, 16 / 8 * (1 + 5 / 3)),
        (GeometricMedian(), 4 * (10 / 8) ** 2, 4 * (10 / 9) ** 2, 4 * 2**2),
        (GeometricMedian(p=3), CUBE * 4 * (10 / 8) ** 2, CUBE * 4 * (10 / 9) ** 2, CUBE * 4 * 2**2),
        (Comed(), 1, 1, 5 / 3),
        (TrimmedMean(1), 2 / 8, 1 / 9, 1),
        (Phocas(1), 4 * 2 / 8, 4 * 1 / 9, 4),
        (Meamed(1), 4 * 2 / 10 * 2, 4 * 1 / 10 * 2, 4 * 4 / 8 * (1 + 5 / 3)),
        (MDA(1), 8 * 4 / 10, 8 * 1 / 10, 8 * 16 / 8),
        (SMEA(1), 6 * 2 / 10 * (10 / 8) ** 2, 6 * 1 / 10 * (10 / 9) ** 2, 6 * 4 / 8 * 2**2),
        (NNM(1) >> Comed(), 8 * 2 / 10 * 2, 8 * 1 / 10 * 2, 8 * 4 / 8 * (1 + 5 / 3)),
        (NNM(1, p=3) >> Comed(), None, None, None),
        (ARC(1) >> Comed(), 1 + 4 / 8, 1 + 2 / 9, 5 / 3 + 8 / 4),
        (Mean(), None, None, None),
        (Aksel(), None, None, None),
    ],
    ids=repr,
)
def test_by_hand(
    rule: Rule, two_of_twelve: float | None, one_of_eleven: float | None, four_of_twelve: float | None
) -> None:
    """For five coordinates; None where nothing is published."""
    for (n, f), expected in {(12, 2): two_of_twelve, (11, 1): one_of_eleven, (12, 4): four_of_twelve}.items():
        found = rule.kappa(n, f, 5)
        assert found is None if expected is None else found == pytest.approx(expected, rel=1e-12)
