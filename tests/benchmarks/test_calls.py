"""The walks of two calls stay short: what a newcomer has to read to follow them."""

import pytest

pytest.importorskip("torch")

from benchmarks import calls


@pytest.fixture(scope="module")
def walks():
    return calls.measured()


def test_a_columnwise_rule_on_a_matrix(walks) -> None:
    walk = walks["Comed() on a matrix"]
    assert walk.calls <= 45 and len(walk.files) <= 10 and walk.jumps <= 25, str(walk)


def test_a_chain_on_state_dicts(walks) -> None:
    """The receiving of twelve dicts included: one comparison of structures for each, and no call for each layer."""
    walk = walks["NNM(f=2) >> Krum(f=2) on twelve state dicts"]
    assert walk.calls <= 250 and len(walk.files) <= 16 and walk.jumps <= 90, str(walk)


def test_what_is_counted() -> None:
    """Functions of the package, each time they are entered."""
    from mixtailor.storage import split

    walk = calls.walked(lambda: [split(0, 10, 4) for _ in range(3)])
    assert walk.calls == 6 and len(walk.files) == 1 and walk.jumps == 0 and walk.depth == 2  # and its comprehension
