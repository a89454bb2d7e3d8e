"""Frames: what a filmed round says, and that filming changes nothing."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import mixtailor as mt  # noqa: E402  # needs torch, see above
from mixtailor.attacks import Tailored  # noqa: E402  # as above
from mixtailor.simulation import Settings, Simulation, synthetic  # noqa: E402  # as above
from mixtailor.simulation.frames import EPSILONS, Filming, framed_rounds, read_frames  # noqa: E402  # as above

SETTINGS = Settings(n=12, byzantine=2, rounds=10, evaluate_every=5, batch=8, learning_rate=0.1, momentum=0.0)


def filmed(rule: Any, frames: Any = 3, *, settings: Settings = SETTINGS, folder: Path | None = None) -> Any:
    made = Simulation(
        synthetic(), "logistic", rule, Tailored(epsilon=0.1), settings=settings, frames=frames, folder=folder
    )
    return made, made.run()


@pytest.mark.parametrize("make", [lambda: mt.Krum(f=2), lambda: mt.recommended(f=2, n=12)], ids=["krum", "memory"])
def test_filming_changes_nothing(make: Any) -> None:
    """The weights are the same bits; a memory is asked what it would return, and learns nothing from it."""
    (_, plain), (film, seen) = filmed(make(), 0), filmed(make(), 10)
    assert torch.equal(plain.weights, seen.weights)
    assert len(film.frames.made) == 10


def test_a_frame_says_where_everything_is() -> None:
    """In lengths of the honest mean: the honest updates have the mean (1, 0), the attack is at -epsilon."""
    film, _ = filmed(mt.Krum(f=2))
    for frame in film.frames.made:
        byzantine = frame["byzantine"]
        assert len(byzantine) == 2 and all(frame["points"][row] == [-0.1, 0.0, 0.0] for row in byzantine)
        honest = [point for row, point in enumerate(frame["points"]) if row not in byzantine]
        along, across = (sum(point[k] for point in honest) / len(honest) for k in (0, 1))
        assert along == pytest.approx(1.0, abs=1e-3) and across == pytest.approx(0.0, abs=1e-3)
        assert all(abs(point[1]) <= point[2] * (1 + 1e-3) for point in honest)
        assert 0.0 < frame["shown"] <= 1.0
        assert frame["result"] == frame["members"]["Krum(f=2)"] == frame["rules"]["Krum(f=2)"]
        # Without momentum the step is the result, but for a little weight decay.
        assert frame["step"][0] == pytest.approx(frame["result"][0], abs=0.02)


def test_the_attacker_sees_what_every_rule_would_do() -> None:
    """The mean goes (n - f - f epsilon) / n of the way, whatever the updates are."""
    film, _ = filmed(mt.MixTailor([mt.Krum(f=2), mt.Comed()], entropy=mt.SeededEntropy(0)))
    for frame in film.frames.made:
        tried = frame["attacker"]
        assert tried["epsilons"] == list(EPSILONS)
        found = [point[0] for point in tried["rules"]["Mean()"]]
        assert found == pytest.approx([(10 - 2 * epsilon) / 12 for epsilon in EPSILONS], abs=1e-3)
        at = EPSILONS.index(0.1)
        for name in ("Krum(f=2)", "Comed()"):
            assert tried["members"][name][at] == pytest.approx(frame["members"][name], abs=2e-3)
        assert frame["shares"] == {"Krum(f=2)": 0.5, "Comed()": 0.5} and frame["whole"] == 2


def test_a_large_pool_shows_some_of_its_rules() -> None:
    film, _ = filmed(mt.MixTailor(mt.paper_pool(f=2), entropy=mt.SeededEntropy(0)), 1)
    (frame,) = film.frames.made
    assert frame["whole"] == 64 and sum(frame["shares"].values()) == pytest.approx(1.0, abs=1e-3)
    assert {name.partition("(")[0] for name in frame["members"]} == {"Krum", "Comed", "GeometricMedian", "Bulyan"}


@pytest.mark.parametrize("sends", ["deltas", "models"])
def test_models_and_deltas_are_seen_as_changes(sends: Any) -> None:
    settings = Settings(n=12, byzantine=2, rounds=4, evaluate_every=2, batch=8, sends=sends, local_steps=2)
    film, _ = filmed(mt.Mean(), 2, settings=settings)
    for frame in film.frames.made:
        assert frame["result"][0] == pytest.approx((10 - 2 * 0.1) / 12, abs=2e-3)
        assert all(frame["points"][row][0] == pytest.approx(-0.1, abs=2e-3) for row in frame["byzantine"])


def test_frames_are_small_and_found_again(tmp_path: Path) -> None:
    """A few kilobytes for each round, whatever the network; of a round that was filmed twice, the last counts."""
    filmed(mt.Comed(), Filming(3, {"mine": mt.TrimmedMean(f=2)}), folder=tmp_path)
    path = tmp_path / "frames.jsonl"
    assert path.stat().st_size < 3 * 6000
    found = read_frames(tmp_path)
    assert [frame["round"] for frame in found] == [1, 5, 10] and "mine" in found[0]["rules"]
    with path.open("a") as file:
        file.write(json.dumps({**found[0], "drawn": "again"}) + "\n" + '{"round": 9')  # the last line was cut off
    again = read_frames(tmp_path)
    assert [frame["round"] for frame in again] == [1, 5, 10] and again[0]["drawn"] == "again"
    path.write_text("nonsense\n")
    with pytest.raises(ValueError, match="is damaged: a line is no frame"):
        read_frames(tmp_path)


DAMAGED = [
    lambda frame: frame.pop("points"),
    lambda frame: frame.update(points=[]),
    lambda frame: frame.update(byzantine=[99]),
    lambda frame: frame.update(result=[0.0, 1.0]),
    lambda frame: frame.update(step=["<b>", 0.0, 0.0]),
    lambda frame: frame.update(weights=[1e999]),
    lambda frame: frame.update(members={}),
    lambda frame: frame.update(round=1.5),
    lambda frame: frame.update(drawn=None),
    lambda frame: frame["attacker"].update(epsilons=[1.0]),
    lambda frame: frame["attacker"]["rules"].update({"Mean()": []}),
]


def test_a_damaged_frame_is_refused(tmp_path: Path) -> None:
    """A page is made of what others recorded, too."""
    film, _ = filmed(mt.Comed(), 1)
    path = tmp_path / "frames.jsonl"
    path.write_text(json.dumps(film.frames.made[0]) + "\n")
    assert len(read_frames(tmp_path)) == 1
    for damage in DAMAGED:
        frame = copy.deepcopy(film.frames.made[0])
        damage(frame)
        path.write_text(json.dumps(frame) + "\n")
        with pytest.raises(ValueError, match="is damaged: a line is no frame"):
            read_frames(tmp_path)


def test_rounds_are_spread_evenly() -> None:
    assert sorted(framed_rounds(10, 3)) == [0, 4, 9]
    assert sorted(framed_rounds(2, 10)) == [0, 1]
    with pytest.raises(ValueError, match="count >= 0"):
        Filming(-1)
