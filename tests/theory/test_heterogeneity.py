"""The lower bound for workers whose data differ, against the instance that its proof builds."""

import math

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.theory import heterogeneity_bound


@pytest.mark.parametrize(("n", "f"), [(12, 2), (12, 5), (7, 3), (50, 10)])
@pytest.mark.parametrize("rule", [mt.Mean(), mt.Comed(), mt.GeometricMedian()], ids=repr)
def test_no_rule_is_better_in_both_worlds(rule, n, f) -> None:
    """Quadratic losses at -a, 0 and a: one of the two possible honest groups has a gradient at the bound or above."""
    points = np.repeat([-1.0, 0.0, 1.0], [f, n - 2 * f, f])[:, None]
    honest = points[: n - f], points[f:]
    G = float(honest[0].std())
    assert honest[1].std() == pytest.approx(G)
    result = rule(points)
    worst = max(float((result - group.mean(axis=0))[0]) ** 2 for group in honest)
    assert worst >= heterogeneity_bound(n, f, G=G).squared_gradient * (1 - 1e-9)


def test_the_published_form_has_a_breakdown_point() -> None:
    """f < n / (2 + B^2); without B the bound of the proof is four times the published one."""
    bound = heterogeneity_bound(12, 2, G=3.0)
    assert bound.proved == pytest.approx(4 * bound.published)
    assert heterogeneity_bound(12, 2, G=3.0, B=1.9).squared_gradient > bound.squared_gradient
    assert heterogeneity_bound(12, 2, G=3.0, B=2.0).squared_gradient == math.inf
    assert heterogeneity_bound(12, 0, G=3.0).squared_gradient == 0.0
    with pytest.raises(ValueError, match="n >= 2f"):
        heterogeneity_bound(4, 2, G=1.0)
