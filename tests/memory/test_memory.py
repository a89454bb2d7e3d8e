"""`Memory`: what it learns, whom it forgets, and how it is kept."""

import os
import pickle
import threading
import warnings

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.memory import history
from mixtailor.memory.history import History, Recall
from mixtailor.memory.views import copies, embedded, view_of, widest
from mixtailor.mixing import SeededEntropy
from mixtailor.rules._spectra import filtered
from mixtailor.rules.view_filter import above_noise
from mixtailor.updates import Updates

NAMES = [f"w{i}" for i in range(12)]


def pushed(random: np.random.Generator, byzantine: list[int], by: float = 1.0, n: int = 12, d: int = 200):
    """Honest noise, and a push of the noise's size in each coordinate that is the same every round."""
    rows = random.normal(size=(n, d)).astype(np.float32)
    rows[byzantine] = -by
    return rows


def trained(memory: mt.Memory, rounds: int, byzantine: list[int], **options):
    random = np.random.default_rng(7)
    for _ in range(rounds):
        result = memory.aggregate(pushed(random, byzantine, **options), workers=NAMES)
    return result


@pytest.mark.parametrize("rule", [mt.ViewFilter(4), mt.NNM(4) >> mt.GeometricMedian()], ids=repr)
def test_a_steady_push_of_the_size_of_the_noise_loses_its_weight(rule: mt.Rule) -> None:
    """Four of twelve push by one standard deviation: after a hundred rounds they have no weight."""
    result = trained(mt.Memory(rule, key=1), 100, [1, 4, 6, 9])
    assert result.weights is not None and result.weights[[1, 4, 6, 9]].sum() < 0.01
    assert 0.9 < result.weights.sum() <= 1.0 + 1e-12  # what is longer than the median is shortened to it


def test_one_more_than_declared_does_not_bring_the_mean() -> None:
    """Five push and four are declared: the five together get less than their share."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that five look hostile is said in a test of its own
        result = trained(mt.Memory(mt.ViewFilter(4), key=1), 100, [1, 4, 6, 9, 10])
    assert result.weights is not None and result.weights[[1, 4, 6, 9, 10]].sum() < 0.05


def test_more_suspects_than_f_are_named_once() -> None:
    """The estimate does not depend on the declared f."""
    memory = mt.Memory(mt.ViewFilter(2), key=1)
    with pytest.warns(UserWarning, match=r"4 workers look hostile \(w\d, w\d, w\d, w\d\), and f = 2"):
        trained(memory, 40, [1, 4, 6, 9])
    assert sorted(memory.suspects()) == ["w1", "w4", "w6", "w9"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(memory, 5, [1, 4, 6, 9])


def test_nobody_is_suspected_without_a_reason() -> None:
    """Noise alone makes no suspects."""
    memory = mt.Memory(mt.ViewFilter(2), key=1)
    trained(memory, 60, [])
    assert memory.suspects() == []


def test_one_round_is_bounded_by_the_median_length() -> None:
    """However far f updates are, each counts as no longer than the median."""
    random = np.random.default_rng(3)
    for far in (1e4, 1e30):
        rows = random.normal(size=(12, 50)).astype(np.float32)
        rows[[0, 5]] = far
        result = mt.recommended(2).aggregate(rows)
        assert np.linalg.norm(result.update) <= np.median(np.linalg.norm(rows.astype(np.float64), axis=1)) * 1.001


def test_a_huge_update_does_not_blind_the_memory() -> None:
    """One worker sends noise of 1e10: the other three, who push, are found all the same."""
    memory, random = mt.Memory(mt.ViewFilter(4), key=1), np.random.default_rng(2)
    for _ in range(100):
        rows = pushed(random, [1, 4, 6])
        rows[9] = 1e10 * random.normal(size=rows.shape[1])
        result = memory.aggregate(rows, workers=NAMES)
    assert result.weights is not None and result.weights[[1, 4, 6]].sum() < 0.05


def test_quiet_copies_do_not_capture_the_weight() -> None:
    """Four identical updates near the mean have the least spread of all subsets, and get no more than their share."""
    memory, random = mt.Memory(mt.ViewFilter(4), key=1), np.random.default_rng(2)
    for _ in range(30):
        rows = random.normal(size=(12, 200))
        rows[[1, 4, 6, 9]] = rows.mean(axis=0) - 0.1
        result = memory.aggregate(rows, workers=NAMES)
    assert result.weights is not None and result.weights[[1, 4, 6, 9]].sum() < 0.4


def test_workers_are_told_apart_by_name() -> None:
    """The order of the updates changes every round, and half of the workers are absent."""
    memory, random = mt.Memory(mt.ViewFilter(2), key=1), np.random.default_rng(5)
    for _ in range(200):
        present = random.permutation(12)[:8]
        rows = pushed(random, [])[present]
        rows[np.isin(present, [3, 8])] = -1.0
        result = memory.aggregate(rows, workers=[NAMES[i] for i in present])
    assert sorted(memory.suspects()) == ["w3", "w8"]
    assert result.weights is not None and result.weights[np.isin(present, [3, 8])].sum() < 0.02
    assert memory.rounds("w0") < 200 and set(memory) == set(NAMES)


def test_an_absent_worker_stays_as_it_was() -> None:
    """Staying away does not make anybody forget."""
    memory = mt.Memory(mt.ViewFilter(1), key=1)
    trained(memory, 30, [4])
    before = memory.state()["means"][4].copy()
    random = np.random.default_rng(1)
    others = [i for i in range(12) if i != 4]
    memory.aggregate(pushed(random, [])[others], workers=[NAMES[i] for i in others])
    state = memory.state()
    assert np.array_equal(state["means"][state["workers"].index(NAMES[4])], before)


def test_new_names_cannot_fill_the_memory(monkeypatch) -> None:
    """Those that have been absent longest are forgotten; whoever takes part is not."""
    monkeypatch.setattr(history, "MOST_WORKERS", 20)
    memory, random = mt.Memory(mt.ViewFilter(1), size=16), np.random.default_rng(0)
    for round in range(10):
        strangers = [f"stranger {round} {place}" for place in range(4)]
        memory(random.normal(size=(10, 5)), workers=[*NAMES[:6], *strangers])
    assert len(list(memory)) == 20 and memory.rounds("w0") == 10
    assert memory.rounds("stranger 9 0") == 1 and memory.rounds("stranger 0 0") == 0
    assert set(memory.state()["suspicion"]) <= set(memory)
    memory(random.normal(size=(30, 5)))  # more at once than the limit
    assert len(list(memory)) == 30


def test_a_newcomer_is_neither_preferred_nor_suspected() -> None:
    """A worker without history has about the share of the others in its first round."""
    memory = mt.Memory(mt.ViewFilter(2), key=1)
    random = np.random.default_rng(4)
    for _ in range(80):
        memory.aggregate(random.normal(size=(11, 200)), workers=NAMES[:11])
    result = memory.aggregate(random.normal(size=(12, 200)), workers=NAMES)
    assert result.weights is not None and 0.5 / 12 < result.weights[11] < 1.5 / 12
    memory.forget("w11")
    assert memory.rounds("w11") == 0 and "w11" not in set(memory)


def test_the_state_is_kept_over_a_restart(tmp_path) -> None:
    """Saved and loaded, pickled, or given as a state: the next round is the same to the last bit."""
    memory = mt.Memory(mt.ViewFilter(2), key=9)
    trained(memory, 10, [0, 1])
    memory.save(tmp_path / "memory.npz")
    loaded = mt.Memory(mt.ViewFilter(2))
    loaded.load(tmp_path / "memory.npz")
    pickled = pickle.loads(pickle.dumps(memory))  # noqa: S301  # our own bytes
    rows = pushed(np.random.default_rng(11), [0, 1])
    expected = memory(rows, workers=NAMES)
    assert np.array_equal(loaded(rows, workers=NAMES), expected)
    assert np.array_equal(pickled(rows, workers=NAMES), expected)


@pytest.mark.parametrize("content", [b"", b"not a file of ours", b"PK\x05\x06" + bytes(18)])
def test_a_damaged_state_is_refused(tmp_path, content: bytes) -> None:
    path = tmp_path / "memory.npz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not the state of a memory"):
        mt.Memory(mt.ViewFilter(2)).load(path)


def test_counts_of_a_state_are_counts() -> None:
    """Rounds beyond 64 bits were restored, and the next call stopped with an error of numpy."""
    memory = mt.Memory(mt.ViewFilter(1), size=16)
    memory(np.random.default_rng(0).normal(size=(4, 10)))
    state = memory.state()
    with pytest.raises(ValueError, match="its key, its names or its counts cannot be those of a memory"):
        memory.restore({**state, "rounds": [10**30] * 4, "calls": 10**31})


def test_a_state_with_flipped_bytes_is_refused_in_a_sentence(tmp_path) -> None:
    """Whatever the archive's reader raises."""
    memory, path, random = mt.Memory(mt.ViewFilter(1), size=16), tmp_path / "memory.npz", np.random.default_rng(0)
    memory(random.normal(size=(4, 10)))
    memory.save(path)
    assert path.stat().st_mode & 0o077 == 0  # it holds the secret of the sketches
    content, refused = path.read_bytes(), 0
    for _ in range(200):
        damaged = bytearray(content)
        for place in random.integers(len(content), size=3):
            damaged[place] ^= int(random.integers(1, 256))
        path.write_bytes(damaged)
        try:
            memory.load(path)
        except ValueError:
            refused += 1
    assert refused > 150


def test_a_pipe_is_no_state(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is not a regular file"):
        mt.Memory(mt.ViewFilter(1)).load(tmp_path / "pipe")


@pytest.mark.parametrize(
    "change",
    [
        {"key": -1}, {"key": 1 << 64}, {"key": float("inf")}, {"rounds": [0, 1, 1, 1]},
        {"workers": ["0", "0", "1", "2"]}, {"suspicion": {"0": float("nan")}}, {"suspicion": {"0": "much"}},
        {"suspicion": {"0": 9.0}}, {"suspicion": 5}, {"d": 0}, {"d": "many"},
    ],
    ids=str,
)  # fmt: skip
def test_a_state_that_no_memory_gives_is_refused(change: dict[str, object]) -> None:
    memory = mt.Memory(mt.ViewFilter(1), size=16, key=1)
    memory(np.random.default_rng(0).normal(size=(4, 10)))
    with pytest.raises(ValueError, match="memory"):
        memory.restore({**memory.state(), **change})
    assert memory.state()["key"] == 1 and memory.rounds(0) == 1


@pytest.mark.parametrize("state", [None, 5, []])
def test_what_is_no_state_is_refused(state: object) -> None:
    with pytest.raises(ValueError, match="state that another memory gave"):
        mt.Memory(mt.ViewFilter(1)).restore(state)  # type: ignore[arg-type]  # on purpose


def test_equal_updates_and_one_other() -> None:
    """Equal updates deviate equally, by rounding: they do not all lose their weight."""
    random = np.random.default_rng(0)
    for f in (1, 2, 5):
        memory, rows = mt.recommended(f), np.ones((12, 40))
        for _ in range(5):
            rows[0] = random.normal(size=40)
            np.testing.assert_allclose(memory(rows), 1.0, rtol=1e-6)


def test_any_size_of_updates_is_decided_and_leaves_no_infinity() -> None:
    """From 1e-138 to 1e138 between two rounds, and back; running means are float32. Beyond 1e140 updates are faults."""
    memory, random = mt.recommended(2), np.random.default_rng(0)
    for size in (1.0, 1e138, 1e-138, 1e39, 1e-39, 1e130, 0.0, 1.0):
        rows = random.normal(size=(12, 40))
        with np.errstate(over="raise", invalid="raise"):
            result = memory(rows * size)
        assert np.isfinite(result).all() and np.isfinite(memory.state()["means"]).all()
        if size:
            assert np.linalg.norm(result / size) <= np.median(np.linalg.norm(rows, axis=1)) * 1.001


def test_the_state_of_another_memory_is_refused() -> None:
    state = mt.Memory(mt.ViewFilter(2), size=64).state()
    with pytest.raises(ValueError, match="Make a memory like the one"):
        mt.Memory(mt.ViewFilter(2)).restore(state)
    with pytest.raises(ValueError, match="got something else"):
        mt.Memory(mt.ViewFilter(2)).restore({})


def test_one_memory_belongs_to_one_model() -> None:
    """Updates of another length, also after a state was restored."""
    rows = np.random.default_rng(0).normal(size=(6, 10))
    memory, other = mt.Memory(mt.ViewFilter(1)), mt.Memory(mt.ViewFilter(1))
    memory(rows)
    other.restore(memory.state())
    for used in (memory, other):
        with pytest.raises(ValueError, match="of updates with 10 coordinates, and these have 9"):
            used(rows[:, :9])
        assert used.rounds(0) == 1
    memory.reset()
    assert memory(rows[:, :9]).shape == (9,)


def test_a_call_that_fails_teaches_nothing() -> None:
    """More faulty updates than f: the round is skipped, and the memory is as before."""
    memory = mt.Memory(mt.ViewFilter(1), key=1)
    rows = np.random.default_rng(0).normal(size=(6, 10))
    memory(rows)
    before = memory.state()["means"].copy()
    rows[:3, 0] = np.nan
    assert memory.aggregate(rows, on_fault="skip").update is None
    with pytest.raises(mt.FaultError):
        memory(rows)
    assert np.array_equal(memory.state()["means"], before)


def test_a_faulty_update_is_quarantined_and_not_remembered() -> None:
    memory = mt.Memory(mt.ViewFilter(1), key=1)
    rows = np.random.default_rng(0).normal(size=(6, 10))
    rows[2, 3] = np.inf
    result = memory.aggregate(rows, workers=NAMES[:6])
    assert [item.worker for item in result.quarantined] == ["w2"]
    assert "w2" not in set(memory) and np.isfinite(result.update).all()


def test_a_pool_is_drawn_each_round() -> None:
    """Both rules of the recommended pool are drawn, and the result names the rule and not the memory."""
    memory, random = mt.recommended(2), np.random.default_rng(0)
    drawn = {repr(memory.aggregate(random.normal(size=(12, 20))).rule) for _ in range(40)}
    assert drawn == {"ViewFilter(f=2)", "ViewFilter(f=2, bound=3)"}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: mt.Memory(mt.Comed()), "computes it coordinate by coordinate"),
        (lambda: mt.Memory(mt.MixTailor([mt.Krum(1), mt.TrimmedMean(1)])), r"TrimmedMean\(f=1\) computes it"),
        (lambda: mt.Memory(mt.Memory(mt.Krum(1))), "must be outermost"),
        (lambda: mt.MixTailor([mt.Memory(mt.Krum(1))]), "must be outermost"),
        (lambda: mt.Memory(mt.Krum(1), decays=()), "at least one decay"),
        (lambda: mt.Memory(mt.Krum(1), decays=0.9), "at least one decay"),
        (lambda: mt.Memory(mt.Krum(1), decays=(0.9, 1.0)), "each below 1"),
        (lambda: mt.Memory(mt.Krum(1), key=-1), "integer of 64 bits"),
        (lambda: mt.NNM(1) >> mt.Memory(mt.Krum(1)), "must be outermost"),
        (lambda: mt.recommended("auto"), "needs n"),
        (lambda: mt.recommended(6, n=12), r"needs at least 13 workers \(n >= 2f \+ 1\) and got n = 12"),
    ],
)
def test_wrong_arguments_say_what_to_write(make, sentence: str) -> None:
    rows = np.random.default_rng(0).normal(size=(12, 5))
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()(rows)


def test_names_must_differ() -> None:
    with pytest.raises(ValueError, match="a different name for each update"):
        mt.Memory(mt.Krum(1))(np.eye(6), workers=["a"] * 6)


def test_auto_is_the_most_that_n_allows() -> None:
    assert mt.recommended("auto", n=12).tolerates(12) == 5


def test_layers_and_matrices_give_the_same() -> None:
    """The sketch counts coordinates in the order of the layers."""
    random = np.random.default_rng(3)
    first, second = mt.Memory(mt.ViewFilter(1), key=5), mt.Memory(mt.ViewFilter(1), key=5)
    for _ in range(3):
        rows = random.normal(size=(6, 5000))
        dicts = [{"a": row[:3000].reshape(60, 50), "b": row[3000:]} for row in rows]
        whole, parts = first(rows), second(dicts)
        np.testing.assert_allclose(np.concatenate([parts["a"].ravel(), parts["b"]]), whole, rtol=1e-12, atol=1e-14)


def test_a_view_is_raised_to_the_median() -> None:
    """Nobody is quieter than the median, and the sum of each row of a centred view is only what was raised."""
    view = view_of(np.random.default_rng(0).normal(size=(9, 30)) * np.linspace(0.1, 3, 9)[:, None])
    assert np.diag(view).min() == pytest.approx(1.0)
    np.testing.assert_allclose(view_of(np.zeros((4, 3))), np.eye(4))


def test_embedded_points_have_the_inner_products_of_a_view() -> None:
    view = view_of(np.random.default_rng(0).normal(size=(7, 20)))
    points = embedded(view)
    np.testing.assert_allclose(points @ points.T, view, atol=1e-12)


def test_the_widest_view_is_the_one_with_the_largest_eigenvalue() -> None:
    """A steady pair of workers in the past, noise in this round."""
    now, past = (view_of(np.random.default_rng(k).normal(size=(12, 200))) for k in range(2))
    past[:2, :2] += 5.0
    np.testing.assert_array_equal(widest(np.stack([now, past])), past)


def test_who_is_close_to_the_mean_has_a_fair_share() -> None:
    """Four of twelve push by less than honest workers differ: none of the rules gives them more than a third."""
    random = np.random.default_rng(11)
    rows = random.normal(size=(12, 300)) * np.exp(0.3 * random.normal(size=(12, 1)))
    rows[8:] = 0.5 * random.normal(size=(4, 300)) - 0.3
    for rule in (mt.ViewFilter(4), mt.DistanceFilter()):
        weights = mt.Memory(rule, key=1).aggregate(rows, workers=NAMES).weights
        assert weights[8:].sum() <= 1 / 3 + 1e-9, rule
    assert mt.CAF(4).aggregate(rows).weights[8:].sum() > 0.45  # what a rule that always removes f does


def test_copies_share_the_weight_of_one_update() -> None:
    """Four workers send the same update, close to the mean: together they count as one of nine."""
    rows = np.random.default_rng(12).normal(size=(12, 300))
    rows[:8] /= np.linalg.norm(rows[:8], axis=1, keepdims=True)  # nobody is clipped
    rows[8:] = rows[:8].mean(axis=0) - 0.02
    result = mt.Memory(mt.DistanceFilter(), key=1).aggregate(rows, workers=NAMES)
    np.testing.assert_allclose(result.weights, [1 / 9] * 8 + [1 / 36] * 4)


def test_a_copied_worker_loses_nothing_of_its_update() -> None:
    """Attackers that send what an honest worker sent share its weight: the result is the honest mean."""
    rows = np.random.default_rng(13).normal(size=(12, 300))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)  # nobody is clipped
    rows[8:] = rows[0]
    result = mt.Memory(mt.DistanceFilter(), key=1)(rows, workers=NAMES)
    np.testing.assert_allclose(result, rows[:8].mean(axis=0), atol=1e-12)


def test_far_updates_make_no_copies_of_the_honest_ones() -> None:
    """Five of twelve are far away from all: the honest ones are close together by comparison, and no copies."""
    rows = np.random.default_rng(14).normal(size=(12, 50))
    rows[7:] *= 1e6
    assert copies(rows).tolist() == [1.0] * 12
    rows[7:] = rows[7]
    assert copies(rows).tolist() == [1.0] * 7 + [5.0] * 5
    assert copies(np.zeros((4, 3))).tolist() == [1.0] * 4


def test_running_means_by_hand() -> None:
    """Two workers, one number each, decay 0.5, all weight on the first: deviations 0 and 2, then 0 and 4."""
    history = History(0, (0.5,), 1)
    for value in (2.0, 4.0):
        recall = Recall(history, ["a", "b"])
        recall.views(np.array([[1.0], [1.0 + value]]), (0, 1), 1)
        recall.decided(np.array([1.0, 0.0]))
        recall.commit()
    assert history.means["a"].tolist() == [[0.0]] * 3
    steady, signed, last = history.means["b"][:, 0]
    assert steady == 0.5 * 1.0 + 0.5 * 4.0
    assert last == 2.0 and history.persisting["b"].tolist() == [pytest.approx(0.05 * 4.0)] * 2
    assert history.persistence(["a", "b", "c"]) == 0.99  # a has not deviated, c is new; a slope of 1 is cut
    # With signs, in units of the usual distance to the mean, 1 and 2: 2 in both rounds.
    assert abs(signed) in [pytest.approx(0.01 * 2.0 * (0.99 + sign), rel=1e-4) for sign in (1, -1)]


@pytest.mark.parametrize("momentum", [0.0, 0.8])
def test_workers_that_move_together_are_found_though_their_direction_changes(momentum: float) -> None:
    """Four of twelve push in a direction that is drawn again in each round: running means show nothing of it."""
    random, memory, sent, theirs = np.random.default_rng(3), mt.Memory(mt.ViewFilter(4), key=1), np.zeros((12, 300)), []
    for _ in range(120):
        rows = random.normal(size=(12, 300))
        rows[8:] = np.sqrt(0.3) * rows[8:] + np.sqrt(0.7) * random.normal(size=300)
        sent = momentum * sent + (1 - momentum) * rows
        theirs.append(np.asarray(memory.aggregate(sent, workers=NAMES).weights)[8:].sum())
    assert np.median(theirs[40:]) < 0.1  # a third would be their fair share
    recall = Recall(memory._history, NAMES)
    sketches = np.random.default_rng(4).normal(size=(12, 1024))  # of a round in which nobody moves with anybody
    steady, pairs = recall.views(sketches, range(12), 300)
    assert above_noise(steady, 4).weights[8:].mean() > 0.9
    paired = filtered(pairs[None], 4).weights
    assert paired[8:].sum() / paired.sum() < 0.1


def test_who_begins_to_move_together_late_is_found_within_some_sixty_rounds() -> None:
    """Four of twelve send what honest workers send for two hundred rounds, and then push together."""
    random, memory, theirs = np.random.default_rng(3), mt.Memory(mt.ViewFilter(4), key=1), []
    for round in range(310):
        rows = random.normal(size=(12, 300))
        if round >= 200:
            rows[8:] = np.sqrt(0.3) * rows[8:] + np.sqrt(0.7) * random.normal(size=300)
        theirs.append(np.asarray(memory.aggregate(rows, workers=NAMES).weights)[8:].sum())
    assert np.mean(theirs[150:200]) > 0.25  # a third is their fair share
    assert np.mean(theirs[200:260]) < 0.35
    assert np.median(theirs[260:]) < 0.1


def test_the_view_of_pairs_is_that_of_the_rounds_summed() -> None:
    """Random signs make the inner products of running means those of the deviations, round by round."""
    random, history = np.random.default_rng(0), History(7, (0.9,), 4096)
    expected = np.zeros((4, 4))
    for _ in range(30):
        recall, rows = Recall(history, list("abcd")), random.normal(size=(4, 4096))
        rows[1] += rows[0] * random.choice([-0.5, 0.5])
        recall.views(rows, range(4), 4096)
        recall.decided(np.full(4, 0.25))
        recall.commit()
        away = rows - rows.mean(axis=0)
        expected = 0.99**2 * expected + 0.01**2 * away @ away.T / np.median((away**2).sum(axis=1))
    signed = history.means_of(list("abcd"))[1]
    assert history.persistence(list("abcd")) == 0.0  # the deviations are unrelated from round to round
    np.testing.assert_allclose(signed @ signed.T, expected, atol=0.03 * expected.max())


def with_momentum(memory: mt.Memory, rounds: int, own: float = 0.0) -> list[float]:
    """The last four's weight in each round. From round 200 on, what is new in their updates is mostly shared."""
    random, weights = np.random.default_rng(3), []
    updates, steady = np.zeros((12, 300)), own * random.normal(size=(12, 300))
    for round in range(rounds):
        new = random.normal(size=(12, 300)) + steady
        if round >= 200:
            new[8:] = np.sqrt(0.3) * new[8:] + np.sqrt(0.7) * random.normal(size=300)
        updates = 0.9 * updates + 0.1 * new
        weights.append(float(np.asarray(memory.aggregate(updates, workers=NAMES).weights)[8:].sum()))
    return weights


def test_who_moves_together_is_found_though_every_update_carries_momentum() -> None:
    """The slope of a deviation on the last one is that of the momentum, and what it explains is taken away."""
    memory = mt.Memory(mt.ViewFilter(4), key=1)
    theirs = with_momentum(memory, 260)
    assert memory._history.persistence(NAMES) == pytest.approx(0.9, abs=0.03)
    assert np.mean(theirs[100:200]) > 0.25  # a third is their fair share
    assert np.median(theirs[230:]) < 0.15


def test_persistence_of_steady_workers_is_high_and_of_newcomers_unknown() -> None:
    history, random = History(7, (0.9,), 64), np.random.default_rng(0)
    steady = random.normal(size=(4, 64))
    for round in range(20):
        recall = Recall(history, list("abcd"))
        recall.views(steady + 0.1 * random.normal(size=(4, 64)), range(4), 64)
        recall.decided(np.full(4, 0.25))
        recall.commit()
        assert (history.persistence(list("abcd")) > 0.9) == (round > 0)
    assert history.persistence(["new"]) == 0.0
    history.forget("a")
    assert "a" not in history.state()["workers"] and len(history.state()["persisting"]) == 3


def test_an_attacker_can_try_updates_on_the_memory_and_teaches_it_nothing() -> None:
    """Trials know what is remembered of the workers that are expected, for every rule that may be drawn."""
    from mixtailor.attacks import ALIE, BestResponse
    from mixtailor.attacks.base import Scene
    from mixtailor.attacks.trials import Trials

    memory, byzantine = mt.recommended(4), [1, 4, 6, 9]
    trained(memory, 60, byzantine)
    before = memory.state()["means"].copy()
    honest = np.random.default_rng(3).normal(size=(8, 200)).astype(np.float32) + 1.0
    updates = Updates.arrived(receive(honest))
    scene = Scene(updates, 4, 12, None, None, np.random.default_rng(0))
    points = ALIE(0.5).points(scene)
    memory.expect([i for i in range(12) if i not in byzantine] + byzantine)
    unknown = Trials(memory, scene).outcomes(points)  # the names that it knows begin with a letter
    memory.expect([NAMES[i] for i in range(12) if i not in byzantine] + [NAMES[i] for i in byzantine])
    known = Trials(memory, scene).outcomes(points)
    assert len(known) == 2 and all(a.inner > b.inner for a, b in zip(known, unknown, strict=True))
    assert BestResponse(memory, budget=8)(honest, f=4).shape == (4, 200)
    assert np.array_equal(memory.state()["means"], before)


POOL = [mt.ViewFilter(2), mt.DistanceFilter(), mt.NNM(2) >> mt.GeometricMedian()]


@pytest.mark.parametrize("rule", POOL, ids=repr)
def test_equal_weights_change_no_bit_and_no_memory(rule: mt.Rule) -> None:
    plain, weighted = mt.Memory(rule, key=1), mt.Memory(rule, key=1)
    random = np.random.default_rng(0)
    for _ in range(3):
        updates = random.normal(size=(12, 20))
        assert np.array_equal(plain(updates), weighted(updates, weights=[17.0] * 12))
    assert np.array_equal(plain.state()["means"], weighted.state()["means"])


@pytest.mark.parametrize("rule", POOL, ids=repr)
def test_what_has_no_weight_has_no_part(rule: mt.Rule) -> None:
    """Updates of weight 0 are as good as absent: for lengths, views and the rule."""
    there, absent = mt.Memory(rule, key=1), mt.Memory(rule, key=1)
    random, mass = np.random.default_rng(0), np.array([1.0, 2.0] * 6 + [0.0, 0.0])
    for _ in range(5):
        updates = random.normal(size=(14, 20))
        updates[12:] *= 1e3
        found = there(updates, weights=mass, share=0.2)
        np.testing.assert_allclose(found, absent(updates[:12], weights=mass[:12], share=0.2), atol=1e-6)


@pytest.mark.parametrize("rule", POOL, ids=repr)
def test_a_light_majority_of_steady_attackers_is_found(rule: mt.Rule) -> None:
    """Seven of twelve push the same way in every round, by as much as others vary, and have 15 % of the weight."""
    memory, random = mt.Memory(rule, key=1), np.random.default_rng(0)
    mass = np.array([17.0] * 5 + [15 / 7] * 7)
    batches = [random.normal(size=(12, 50)) for _ in range(40)]
    for updates in batches:
        updates[5:] = 1.0
    with pytest.warns(UserWarning, match="7 workers look hostile"):
        result = [memory.aggregate(updates, weights=mass, share=0.2) for updates in batches][-1]
    assert result.weights is not None and result.weights[5:].sum() < 0.1


def test_a_guard_takes_weights_too() -> None:
    """Around a memory, and alone; a share that no rule of the pool tolerates is refused, and teaches nothing."""
    updates = np.random.default_rng(0).normal(size=(12, 20))
    memory = mt.recommended(2)
    for rule in (mt.Guarded(memory), mt.Guarded(mt.Comed(), f=2)):
        assert np.isfinite(rule(updates, weights=np.arange(1.0, 13.0), cap=0.2)).all()
    assert len(list(memory)) == 12
    fresh = mt.recommended(2)
    with pytest.raises(ValueError, match="needs share < 1/2 of the weight"):
        fresh(updates, weights=[100.0, 100.0] + [1.0] * 10)
    assert list(fresh) == []


def test_nobody_is_suspected_where_all_are_honest() -> None:
    """With momentum at the workers an honest one stays on its side of the others for many rounds: that is no reason."""
    random, updates, named = np.random.default_rng(0), np.zeros((12, 24)), set()
    memory = mt.Memory(mt.ViewFilter(2), key=0)
    for _ in range(100):
        updates = 0.9 * updates + random.normal(size=updates.shape) * np.geomspace(1.0, 0.1, 24)
        memory(updates)
        named.update(memory.suspects())
    assert not named


FOR_FOUR = [mt.ViewFilter(4), mt.DistanceFilter(), mt.NNM(4) >> mt.GeometricMedian()]


@pytest.mark.parametrize("rule", [*FOR_FOUR, mt.MixTailor(FOR_FOUR)], ids=repr)
def test_pulses_against_the_training_lose_their_weight(rule: mt.Rule) -> None:
    """Four of twelve push against the mean by half of what workers vary, and half as far with it in other rounds.

    In all directions together this is lost: the running means cancel, and honest workers move together as much.
    """
    random, memory, theirs = np.random.default_rng(3), mt.Memory(rule, key=1), []
    wide = np.where(np.arange(400) < 8, 6.0, 0.3)  # honest deviations have few directions with most of their length
    for round in range(120):
        rows = random.normal(size=(12, 400)) * wide + np.where(np.arange(400) < 8, 0.0, 1.0)
        rows[8:] -= (0.4 if round % 10 < 5 else -0.2) * np.where(np.arange(400) < 8, 0.0, 1.0)
        theirs.append(np.asarray(memory.aggregate(rows, workers=NAMES).weights)[8:].sum())
    assert np.mean(theirs[60:]) < 0.12  # a third is their fair share


def test_honest_workers_keep_their_weight_along_the_guide() -> None:
    """Among iid workers the filter along the guide costs little: the noise of the result is nearly that of the mean."""
    random, memory, noise = np.random.default_rng(5), mt.Memory(mt.DistanceFilter(), key=1), []
    for _ in range(80):
        result = memory(random.normal(size=(12, 300)) + 0.3, workers=NAMES)
        noise.append(12 * np.mean((result - 0.3) ** 2))
    assert np.mean(noise[20:]) < 1.25


def test_who_tries_each_rule_of_a_pool_sees_what_the_server_would_do() -> None:
    """Also along the guide, where DistanceFilter alone would remove as many as n allows, and not the pool's f."""
    pool, random = mt.MixTailor([mt.ViewFilter(1), mt.DistanceFilter()]), np.random.default_rng(4)
    aim = np.ones(60)
    for seed in range(6):
        memory = mt.Memory(pool, key=1)
        for _ in range(12):
            rows = random.normal(size=(12, 60)) + aim
            rows[8:] -= 0.7 * aim  # four push, of which the pool's f declares one
            memory(rows, workers=NAMES, entropy=SeededEntropy(seed))
        rows = random.normal(size=(12, 60)) + aim
        rows[8:] -= 0.7 * aim
        memory.expect(NAMES)
        updates = Updates.arrived(receive(rows))
        tried = [updates.at(one.decide(updates)) for one in memory.members(12)[0]]
        result = memory(rows, workers=NAMES, entropy=SeededEntropy(seed))
        assert min(np.abs(one - result).max() for one in tried) < 1e-9


def test_the_guide_is_saved() -> None:
    """A memory that is loaded looks along the same direction, and refuses a guide of another length."""
    random, memory = np.random.default_rng(6), mt.Memory(mt.ViewFilter(2), key=1)
    for _ in range(5):
        memory(random.normal(size=(6, 30)) + 1.0)
    state, again = memory.state(), mt.Memory(mt.ViewFilter(2))
    again.restore(state)
    rows = random.normal(size=(6, 30))
    np.testing.assert_array_equal(again(rows), memory(rows))
    for damage in ([], [0.0] * 7, [np.nan] * 1024):
        with pytest.raises(ValueError, match="damaged"):
            again.restore({**state, "guide": damage})


def test_a_state_is_of_whole_rounds(monkeypatch) -> None:
    """Another thread that asks for the state in the middle of a round waits for its end."""
    memory, rows = mt.Memory(mt.ViewFilter(1), size=16, key=1), np.random.default_rng(0).normal(size=(5, 10))
    memory(rows)
    found: list[dict[str, object]] = []
    advance = History.advance

    def asked_halfway(
        self: History, workers: list[str], means: np.ndarray, along: np.ndarray, result: np.ndarray
    ) -> None:
        advance(self, workers[:2], means[:, :2], along[:, :2], result)
        thread = threading.Thread(target=lambda: found.append(memory.state()))
        thread.start()
        thread.join(0.1)
        assert not found
        advance(self, workers[2:], means[:, 2:], along[:, 2:], result)

    monkeypatch.setattr(History, "advance", asked_halfway)
    memory(rows)
    monkeypatch.undo()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(10.0)
    assert [state["rounds"] for state in found] == [[2] * 5]


def test_a_restored_memory_does_not_share_the_numbers_of_the_state() -> None:
    """Whoever gave the state may go on to change it."""
    memory = mt.Memory(mt.ViewFilter(1), size=16, key=1)
    memory(np.random.default_rng(0).normal(size=(5, 10)))
    state = memory.state()
    memory.restore(state)
    state["means"][:] = 9.0
    assert np.abs(memory.state()["means"]).max() < 9.0


def test_restored_then_continued_equals_uninterrupted(tmp_path) -> None:
    """Saved and loaded every few rounds, with workers that come and go: the same results and suspects."""

    pool = mt.MixTailor([mt.ViewFilter(2), mt.NNM(2) >> mt.GeometricMedian()])

    def trained_with(interrupted: bool) -> tuple[np.ndarray, list[str]]:
        memory, random, entropy = mt.Memory(pool, key=5), np.random.default_rng(3), SeededEntropy(9)
        results = []
        for round in range(25):
            present = random.permutation(12)[: random.integers(8, 13)]
            if interrupted and round % 6 == 5:
                memory.save(tmp_path / "state")
                memory = mt.Memory(pool)
                memory.load(tmp_path / "state")
            rows = pushed(random, [1, 4])[present]
            results.append(memory(rows, workers=[NAMES[i] for i in present], entropy=entropy))
        return np.array(results), memory.suspects()

    whole, suspects = trained_with(False)
    parts, others = trained_with(True)
    np.testing.assert_array_equal(parts, whole)
    assert others == suspects


def test_many_equal_updates_and_a_large_f_take_no_long_iteration(monkeypatch) -> None:
    """ARPACK does not converge on the identity, the view of equal updates: 150 of them took seconds, as did f = 60."""

    def never(*_arguments: object, **_options: object) -> None:
        raise AssertionError("ARPACK was called")

    monkeypatch.setattr("scipy.sparse.linalg.eigsh", never)
    memory = mt.Memory(mt.ViewFilter(60), key=1)
    np.testing.assert_allclose(memory(np.ones((150, 20))), 1.0)
    with pytest.raises(ValueError, match=r"TrimmedMean\(f=60\) computes it"):
        mt.Memory(mt.TrimmedMean(60))
