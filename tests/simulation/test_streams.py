"""Named streams: functions of seed, name and position, and of nothing else."""

import torch

from mixtailor.simulation import seeded, stream, stream_seed


def test_a_stream_does_not_depend_on_what_was_drawn_before() -> None:
    """Resuming needs no saved generator."""
    alone = stream(5, "batches", 3).integers(1 << 60, size=4)
    stream(5, "batches", 2).integers(1 << 60, size=100)
    assert (stream(5, "batches", 3).integers(1 << 60, size=4) == alone).all()


def test_positions_do_not_run_together() -> None:
    """(1, 23) and (12, 3) and (123) are three places."""
    assert len({stream_seed(0, "a", 1, 23), stream_seed(0, "a", 12, 3), stream_seed(0, "a", 123)}) == 3
    assert stream_seed(1, "a") != stream_seed(0, "a")


def test_seeds_do_not_move_between_versions() -> None:
    """A published result names a seed; the same seed must mean the same run tomorrow."""
    assert stream_seed(0, "dropout", 1) == 6039885604341679871
    assert 0 <= stream_seed(-(10**30), "x") < 2**63


def test_seeded_gives_the_generator_back_after_an_error() -> None:
    before = torch.get_rng_state()
    try:
        with seeded(1):
            torch.rand(1)
            raise KeyError
    except KeyError:
        pass
    assert torch.equal(torch.get_rng_state(), before)
