"""Flower's deployment engine: a SuperLink and SuperNodes on this machine, one of which is killed and comes back."""

import json

from engines.flower.processes import flower

CLIENTS, ROUNDS = 4, 5


def test_a_supernode_is_killed_in_a_round_and_restarted(tmp_path):
    """The round goes on without it, it is named as bad, and with the one that takes its place all is well again.

    A SuperLink takes a SuperNode for gone when it has not been heard of for a minute, so one round lasts that long.
    """
    report = tmp_path / "report.json"
    with flower(tmp_path) as processes:
        processes.superlink()
        nodes = [processes.supernode(place, CLIENTS) for place in range(CLIENTS)]
        killed = []

        def watch(line):
            if "[ROUND 2/" in line and not killed:
                processes.kill(nodes[-1])
                killed.append(nodes[-1])
                processes.supernode(CLIENTS - 1, CLIENTS)

        settings = f'num-server-rounds={ROUNDS} local-steps=60 clients={CLIENTS} f=1 attack="none" report="{report}"'
        said = processes.run("--run-config", settings, watch=watch)
    assert killed, said
    assert report.exists(), said
    found = json.loads(report.read_text())
    rounds = [found["rounds"][str(number)] for number in range(1, ROUNDS + 1)]
    gone = {node for metrics in rounds for node in metrics["mixtailor-quarantined"]}
    assert len(gone) == 1, said  # the killed one, and no other
    assert all(metrics["mixtailor-skipped"] == 0 for metrics in rounds), said
    assert rounds[0]["mixtailor-quarantined"] == [] == rounds[-1]["mixtailor-quarantined"], said
    assert rounds[0]["mixtailor-received"] == CLIENTS == rounds[-1]["mixtailor-received"], said
    assert f"node {gone.pop()} is quarantined: an error (code" in said
    assert found["accuracy"] > 0.7, said
