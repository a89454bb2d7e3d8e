"""Flower's simulation engine, on Ray, by the command that users type: 12 clients, of which 2 attack."""

import json

import pytest
from engines.flower.processes import flower

# Ray gives its own processes 30 s to start, whatever the machine does besides; Flower passes that on.
BUSY = "timed out during startup"
ATTEMPTS = 3


@pytest.mark.parametrize(
    ("config", "quarantined"),
    [('attack="non_finite" num-server-rounds=2', 2), ("collude=true num-server-rounds=2", 0)],
    ids=["alone", "colluding"],
)
def test_twelve_clients_two_attack(tmp_path, config, quarantined):
    """The model learns all the same; clients that send NaN are named in every round."""
    found, said = simulated(tmp_path, config)
    assert found["accuracy"] > 0.7, said  # 0.125 before training
    assert len(found["rounds"]) == 2
    for metrics in found["rounds"].values():
        assert metrics["mixtailor-received"] == 12 and metrics["mixtailor-skipped"] == 0
        assert len(metrics["mixtailor-quarantined"]) == quarantined
    assert ("is quarantined: not finite" in said) == (quarantined > 0)


def test_without_rounds(tmp_path):
    """Four steps of eight updates or more each, as they arrive; clients that send NaN are named, and do not count."""
    found, said = simulated(tmp_path, 'attack="non_finite" asynchronous=true num-server-rounds=4')
    assert found["accuracy"] > 0.7, said  # 0.125 before training
    assert [step["version"] for step in found["steps"]] == [1, 2, 3, 4]
    assert all(len(step["workers"]) >= 8 and len(step["quarantined"]) <= 2 for step in found["steps"])


def simulated(tmp_path, config):
    """What the example's server reports, and all that was printed."""
    report = tmp_path / "report.json"
    with flower(tmp_path) as processes:
        processes.superlink("--simulation")
        size = "num-supernodes=12 client-resources-num-cpus=1 init-args-num-cpus=2"
        settings = f'local-steps=60 byzantine=2 f=2 report="{report}" {config}'
        for _ in range(ATTEMPTS):
            said = processes.run("--federation-config", size, "--run-config", settings)
            if report.exists() or BUSY not in said:
                break
    assert report.exists(), said
    return json.loads(report.read_text()), said
