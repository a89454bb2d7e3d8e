"""The oracle itself, on cases small enough to work out by hand."""

from __future__ import annotations

import math

import naive
import numpy as np
import pytest


def column(*values: float) -> np.ndarray:
    return np.array(values)[:, None]


def test_norms_by_hand():
    """|(3, -4)| is 7, 5 and 4 in l_1, l_2 and l_inf; in l_3 the cube root of 91."""
    x = np.array([[3.0, -4.0]])
    assert [float(naive.norms(x, p)[0]) for p in (1, 2, math.inf)] == [7, 5, 4]
    assert float(naive.norms(x, 3)[0]) == pytest.approx(91 ** (1 / 3), rel=1e-15)
    assert float(naive.norms(x, 2.5)[0]) == pytest.approx((3**2.5 + 4**2.5) ** 0.4, rel=1e-15)


@pytest.mark.parametrize("size", [1e-300, 1e-30, 1e30, 1e300])
@pytest.mark.parametrize("p", [1, 2, 16, 2.5, math.inf])
def test_norms_neither_overflow_nor_underflow(size, p):
    """Four equal entries have norm size * 4^(1/p), whatever the size."""
    assert float(naive.norms(np.full((1, 4), size), p)[0]) == pytest.approx(size * 4 ** (1 / p), rel=1e-14)


def test_norms_of_nothing_and_of_faults():
    """A zero row has norm 0; NaN and infinity show in every norm."""
    x = np.array([[0.0, 0.0], [np.nan, 1.0], [np.inf, 1.0]])
    for p in (1.0, 2.0, 2.5, math.inf):
        zero, nan, infinite = naive.norms(x, p)
        assert zero == 0 and np.isnan(nan) and np.isinf(infinite)


def test_power_sums_by_hand():
    """1 + 8 + 27 for cubes; the maximum for infinity."""
    assert naive.power_sums([[1.0, -2.0, 3.0]], 3)[0] == 36
    assert naive.power_sums([[1.0, -2.0, 3.0]], math.inf)[0] == 3


def test_distances_and_gram_by_hand():
    x = np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    assert naive.distances(x, 1).tolist() == [[0, 7, 1], [7, 0, 6], [1, 6, 0]]
    assert naive.distances_to(x, [0.0, 4.0]).tolist() == [4, 3, 3]
    assert naive.gram(x).tolist() == [[0, 0, 0], [0, 25, 4], [0, 4, 1]]
    assert naive.gram(x, x[2]).tolist() == [[1, -3, 0], [-3, 18, 0], [0, 0, 0]]


def test_combination_skips_zero_weights():
    assert naive.combine([[1.0], [np.inf], [3.0]], [2.0, 0.0, -1.0]).tolist() == [-1.0]


def test_medians_and_trimmed_means_by_hand():
    assert naive.comed(column(5, 1, 9, 2)).tolist() == [3.5]
    assert naive.comed(column(5, 1, 9)).tolist() == [5]
    assert naive.comed(column(1.7e308, 1.7e308)).tolist() == [1.7e308]
    assert naive.trimmed_mean(column(-100, 1, 2, 6, 1e12), 1).tolist() == [3]


def test_meamed_takes_the_nearest_and_the_lower_of_two():
    """Around 4: 3 is nearest, then 6 and 2 tie at distance 2 and the lower one comes in."""
    assert naive.meamed(column(2, 3, 4, 6, 50), 2).tolist() == [3]
    assert naive.meamed(column(50, 2, 6, 4, 3), 1).tolist() == [15 / 4]
    assert naive.around(column(0, 0, 0, 1, 2), 2, [1.0]).tolist() == [0.5]  # 1 itself, then a 0 before the 2


def test_phocas_differs_from_meamed():
    """Sorted 0, 1, 2, 6, 7 with f = 1: the trimmed mean is 3, its four nearest are 2, 1, 0 and 6; around the median 2
    the four nearest are 2, 1, 0 and 6 as well, with f = 2 they are 2, 1, 0 and the trimmed mean is 2."""
    assert naive.phocas(column(0, 1, 2, 6, 7), 1).tolist() == [9 / 4]
    assert naive.phocas(column(0, 4, 5, 9, 10, 11, 12), 1).tolist() == [51 / 6]  # around 39/5: all but the 0
    assert naive.meamed(column(0, 1, 5, 6, 7), 2).tolist() == [6]  # around 5
    assert naive.phocas(column(0, 1, 5, 6, 7), 2).tolist() == [6]
    assert naive.phocas(column(0, 1, 2, 9), 1).tolist() == [1]  # trimmed mean 1.5: 1, 2 and 0
    assert naive.phocas(column(0, 4, 5, 6, 100, 101), 2).tolist() == [15 / 4]  # around 5.5: 5, 6, 4, 0


def test_sign_vote_counts_signs_not_sizes():
    assert naive.sign_vote(np.array([[1.0, -1, 0, 3], [-9, -1, 0, 0], [1, 5, -0.0, 0]])).tolist() == [1, -1, 0, 1]


def test_krum_by_hand():
    """0, 1, 3, 7, 100 with f = 1 have two neighbours: scores 1 + 9, 1 + 4, 4 + 9, 16 + 36, ..."""
    x = column(0, 1, 3, 7, 100)
    assert naive.krum_scores(x, 2).tolist() == [10, 5, 13, 52, 93**2 + 97**2]
    assert naive.krum_scores(x, 2, power=1).tolist() == [4, 3, 5, 10, 190]
    assert naive.krum(x, 1).tolist() == [1]
    assert naive.multi_krum_rows(x, 1) == [0, 1, 2, 3]
    assert naive.multi_krum(x, 1, m=2).tolist() == [0.5]


def test_krum_ties_go_to_the_lowest_index():
    assert naive.krum_row(column(5, 2, 3, 2, 3, 4, 1), 2) == 1
    assert naive.krum_row(column(7, 7, 7, 7, 7), 1) == 0


def test_krum_depends_on_the_norm():
    """Row 0 has the others at (1, 1) steps, row 3 at (1.9, 0) steps: l_1 prefers the latter, l_inf the former."""
    x = np.array([[0.0, 0], [1, 1], [-1, -1], [50, 0], [51.9, 0], [48.1, 0], [900, 900]])
    assert naive.krum_row(x, 3, p=math.inf) == 0
    assert naive.krum_row(x, 3, p=1) == 3


def test_medoid_by_hand():
    assert naive.medoid_scores(column(0, 1, 5)).tolist() == [6, 5, 9]
    assert naive.medoid(column(0, 1, 5)).tolist() == [1]


def test_geometric_median_of_a_right_angle():
    """At (0, 0), (1, 0), (0, 1) the Fermat point is on the diagonal, at (3 - sqrt 3) / 6."""
    x = np.array([[0.0, 0], [1, 0], [0, 1]])
    fermat = (3 - math.sqrt(3)) / 6
    assert naive.exact_geometric_median(x) == pytest.approx(np.full(2, fermat), rel=1e-15)
    assert naive.geometric_median(x) == pytest.approx(np.full(2, fermat), rel=1e-9)


def test_geometric_median_at_a_row_on_a_line_and_without_spread():
    """An angle of 120 degrees or more holds the median; an even line leaves a segment; a majority of copies wins."""
    wide_angle = np.array([[-1.0, 0.1], [0, 0], [1, 0.1]])
    assert naive.exact_geometric_median(wide_angle).tolist() == [0, 0]
    assert naive.geometric_median(wide_angle) == pytest.approx(np.zeros(2), abs=1e-6)
    assert naive.exact_geometric_median(column(0, 1, 5, 100)).tolist() == [3]
    assert naive.exact_geometric_median(column(0, 1, 5)).tolist() == [1]
    assert naive.geometric_median(column(4, 4, 4, 9, -70)).tolist() == [4]


def test_geometric_median_start_by_hand():
    """The medoid of 0, 1, 3, 4, 1e8 is 3 (1 + 2 + 3 + ...), its three nearest are 3, 4 and 1; other p: the comed."""
    x = column(0, 1, 3, 4, 1e8)
    assert naive.geometric_median_start(x).tolist() == [8 / np.longdouble(3)]
    assert naive.geometric_median_start(x, 3).tolist() == [3]


@pytest.mark.parametrize("far", [1e4, 1e12, 1e38])
def test_geometric_median_agrees_with_the_exact_one(far):
    """Weiszfeld and Newton meet, one row far away or not, and scaling all rows scales the answer."""
    rng = np.random.default_rng(3)
    x = np.vstack([rng.normal(size=(8, 5)), np.full((1, 5), far)])
    exact = naive.exact_geometric_median(x)
    assert np.abs(naive.geometric_median(x) - exact).max() < 1e-9
    assert naive.geometric_median(x * 2.0**-20) * 2.0**20 == pytest.approx(naive.geometric_median(x), rel=1e-12)


def test_the_exact_geometric_median_is_least():
    """No nudge of the answer makes the sum of distances smaller."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(9, 5))
    exact = naive.exact_geometric_median(x)
    nudges = rng.normal(size=(50, 5)) * 1e-7
    assert all(naive.sum_of_distances(x, exact + nudge) > naive.sum_of_distances(x, exact) for nudge in nudges)


def test_weights_of_another_norm_move_the_geometric_median():
    x = np.random.default_rng(0).normal(size=(7, 3))
    answers = [naive.geometric_median(x, p=p) for p in (1, 2, 16)]
    assert min(np.abs(answers[0] - answers[1]).max(), np.abs(answers[1] - answers[2]).max()) > 1e-4


def test_bulyan_by_hand():
    """n = 7, f = 1 picks 5 rows by Krum, then takes beta = 3 values about the median of the picks.

    0, 1, 2, 3, 4, 50, 60: four neighbours score 2 best (2 * (1 + 4)). Of 0, 1, 3, 4, 50, 60 three score 1 and 3 alike
    (1 + 4 + 9), and 3 is nearer to all; of 0, 1, 4, 50, 60 two: 1 (1 + 9); of 0, 4, 50, 60 one: 0 and 4 tie, and 4
    is nearer to all; of 0, 50, 60 one: 50 and 60 tie at 100, and 50 is. Picks 2, 3, 1, 4, 50 have median 3 and 2, 3, 4
    nearest.
    """
    x = column(0, 1, 2, 3, 4, 50, 60)
    assert naive.bulyan_rows(x, 1) == [2, 3, 1, 4, 5]
    assert naive.bulyan(x, 1).tolist() == [3]
    assert naive.bulyan(x, 1, second=lambda rows, f: naive.mean(rows)).tolist() == [12]


def test_bulyan_with_ties_to_the_lowest_index():
    """With plain Krum: 2; then 1 before 3; of 0, 3, 4, 50, 60 the 3 (1 + 9); 0 before 4; of 4, 50, 60 the 50."""
    x = column(0, 1, 2, 3, 4, 50, 60)
    assert naive.bulyan_rows(x, 1, selection=naive.krum_row) == [2, 1, 3, 0, 5]
    assert naive.bulyan(x, 1, selection=naive.krum_row).tolist() == [2]


def test_bulyan_picks_the_row_nearest_a_vector():
    """With the mean as selection: 120/7 is nearest 4; of the rest 116/6 is nearest 3; 113/5 is nearest 2; ..."""
    x = column(0, 1, 2, 3, 4, 50, 60)
    assert naive.bulyan_rows(x, 1, selection=lambda rows, f: naive.mean(rows)) == [4, 3, 2, 5, 1]


def test_bulyan_picks_different_rows_when_all_are_equal():
    assert sorted(naive.bulyan_rows(np.ones((7, 2)), 1)) == [0, 1, 2, 3, 4]


def test_mda_and_smea_by_hand():
    """Least diameter: 0, 1, 2 of 0, 1, 2, 9. On a line the covariance is the variance, least for the same."""
    assert naive.mda_rows(column(9, 0, 1, 2), 1) == [1, 2, 3]
    assert naive.mda(column(9, 0, 1, 2), 1).tolist() == [1]
    assert naive.smea_rows(column(9, 0, 1, 2), 1) == [1, 2, 3]
    assert naive.mda_rows(column(3, 3, 3, 3), 2) == [0, 1]


def test_smea_looks_along_the_worst_direction():
    """{0, a, b} spread evenly over two directions beat {0, c, c'} of smaller total but longer line."""
    x = np.array([[0.0, 0], [1, 0], [0, 1], [-1.2, 0], [1.2, 0.0]])
    values = {rows: naive.top_direction(x[list(rows)])[0] for rows in [(0, 1, 2), (0, 3, 4), (0, 1, 4)]}
    assert values[(0, 1, 2)] == pytest.approx(1 / 3)
    assert values[(0, 3, 4)] == pytest.approx(2 * 1.44 / 3)
    assert naive.top_direction(x[[0, 1, 4]])[0] == pytest.approx((0 + 1 + 1.44) / 3 - (2.2 / 3) ** 2)
    assert naive.smea_rows(x, 2) == [0, 1, 4]


def test_caf_by_hand():
    """0, 1, 2, 9: mean 3, tau = 9, 4, 1, 36; the last weight drops to 0, the sum 4 - 50/36 = 94/36 is above 2, so on:
    weights 27, 32, 35 of 36 give mean 102/94 with a smaller variance, which stays the least."""
    assert naive.caf(column(0, 1, 2, 9), 1) == pytest.approx(np.array([102 / 94]), rel=1e-15)
    assert naive.caf(column(0, 1, 2, 9), 0).tolist() == [3]
    assert naive.caf(column(5, 5, 5), 1).tolist() == [5]
    assert naive.caf(column(0, 1, 2, 1e38), 1) == pytest.approx(
        np.array([1.0])
    )  # a far row loses its weight, then its say


def test_dnc_by_hand():
    """On coordinate 0 row 3 stands out, on coordinate 1 row 0 does; rows 1 and 2 survive both samples."""
    x = np.array([[0.0, 90], [1, 1], [2, 2], [50, 3]])
    assert naive.dnc_scores(x[:, :1]).tolist() == pytest.approx([13.25**2, 12.25**2, 11.25**2, 36.75**2])
    assert naive.dnc_rows(x, 1, [[0], [1]]) == [1, 2]
    assert naive.dnc(x, 1, [[0]]).tolist() == [1, 31]
    with pytest.raises(ValueError, match="No row"):
        naive.dnc(x, 2, [[0], [1]], fraction=2.0)


def test_monna_by_hand():
    x = column(0, 4, 5, 100)
    assert naive.monna_rows(x, 2, 1) == [1, 2]
    assert naive.monna(x, 1, 0).tolist() == [3]
    assert naive.monna(x, 2, [99.0]).tolist() == [52.5]


def test_centered_clipping_by_hand():
    """From 0 with radius 2: 1 stays, 2 stays, 30 moves as 2; then from 5/3: -2/3 and 1/3 stay, 85/3 is cut to 2."""
    x = column(1, 2, 30)
    assert naive.centered_clipping(x, centre=[0.0], radius=2) == pytest.approx(np.array([5 / 3]))
    assert naive.centered_clipping(x, centre=[0.0], radius=2, iterations=2) == pytest.approx(np.array([20 / 9]))
    assert naive.centered_clipping(x, centre=[1.0], radius=0).tolist() == [1]


def test_cge_aksel_and_fltrust_by_hand():
    assert naive.cge(np.array([[3.0, 4], [0, 1], [1, 0], [0, 6]]), 2).tolist() == [0.5, 0.5]
    assert naive.aksel_rows(column(0, 1, 2, 50)) == [1, 2]  # comed 1.5, squared distances 2.25, .25, .25, 48.5^2
    assert naive.aksel_rows(column(0, 1, 2, 50, 60)) == [0, 1, 2]
    assert naive.aksel(column(0, 1, 2, 50), keep=3).tolist() == [1]
    x = np.array([[0.0, 10], [3, 0], [-1, 0], [4, 4], [0, 0]])
    assert naive.fltrust_scores(x, [2.0, 0]) == pytest.approx(np.array([0, 1, 0, math.sqrt(0.5), 0]), rel=1e-15)
    # (1 (2, 0) + s (2 s, 2 s)) / (1 + s) with s = sqrt(1/2)
    expected = np.array([3.0, 1.0]) / (1 + math.sqrt(0.5))
    assert naive.fltrust(x, trusted=[2.0, 0]) == pytest.approx(expected, rel=1e-15)
    assert naive.fltrust(x[2:3], trusted=[2.0, 0]).tolist() == [0, 0]


def test_nnm_by_hand():
    assert naive.nnm(column(0, 2, 3, 90), 2).ravel().tolist() == [1, 2.5, 2.5, 46.5]
    assert naive.nnm(column(0, 1, 2), 1).ravel().tolist() == [0.5, 0.5, 1.5]  # the middle row's tie goes to row 0


def test_bucketing_and_resampling_by_hand():
    x = column(0, 10, 20, 30, 40)
    assert naive.bucketing(x, [4, 0, 3, 1, 2], 2).ravel().tolist() == [20, 20, 20]
    assert naive.bucketing(x, range(5), 3).ravel().tolist() == [10, 35]
    assert naive.resampling(x, range(10), 2).ravel().tolist() == [5, 25, 20, 15, 35]
    assert naive.resampling(x, np.random.default_rng(1).permutation(15), 3).mean() == pytest.approx(20)


def test_clipping_and_arc_by_hand():
    x = np.array([[3.0, 4], [0, 1], [0, 0], [6, 8]])
    assert naive.clipping(x, 5).tolist() == [[3, 4], [0, 1], [0, 0], [3, 4]]
    # n = 4, f = 1: k = floor(2 * 3 / 4) = 1, the second largest norm
    assert float(naive.arc_radius(x, 1)) == 5
    assert naive.arc(x, 1).tolist() == [[3, 4], [0, 1], [0, 0], [3, 4]]
    assert naive.arc(x, 0).tolist() == x.tolist()


def test_similarity_filter_drops_both_of_a_pair():
    assert naive.similarity_filter_rows(column(0, 5, 5.5, 9), 1) == [0, 3]
    assert naive.similarity_filter(column(0, 1, 2), 1).ravel().tolist() == [0, 1, 2]  # at eps is not closer than eps
