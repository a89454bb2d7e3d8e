"""The graph of workers without a server, in the report."""

import json
from types import SimpleNamespace

import pytest

from mixtailor.experiments import Experiment, run
from mixtailor.report.graphs import graph_svg, graphs_of
from mixtailor.report.page import write

TEXT = """
title = "x"
[run]
data = "synthetic"
model = "logistic"
n = 8
f = 1
rounds = 4
momentum = 0.0
rule = ["monna"]
attack = [{ name = "bottleneck", epsilon = 2.0 }]
topology = { name = "random_regular", degree = 4 }
"""


def test_an_experiment_on_a_graph_ends_in_a_picture(tmp_path) -> None:
    """Twice the same command makes one run, and the page has its graph with one Byzantine worker."""
    experiment = Experiment.parse(TEXT)
    (first,), (again,) = run(experiment, tmp_path), run(experiment, tmp_path)
    assert first.error is None and again.skipped and first.accuracy == again.accuracy
    page = write(tmp_path / experiment.name).read_text(encoding="utf-8")
    assert page.count("<line x1=") == 16 and "8 workers, 1 Byzantine" in page
    assert "Who talks to whom" in page and "where more than 2 is needed" in page


def test_a_wrong_topology_is_refused_before_anything_runs() -> None:
    with pytest.raises(ValueError, match="n x degree even"):
        Experiment.parse(TEXT.replace("n = 8", "n = 9").replace("degree = 4", "degree = 3")).expanded(1.0)


def test_records_that_were_tampered_with_are_left_out() -> None:
    told = {"edges": [[0, 1]], "byzantine": [1], "lost": [0], "workers": [0.9, None]}
    assert "<title>0: 90.0 %</title>" in graph_svg(told)

    one = SimpleNamespace(panel="p", rule="r", attack="a", records=[])
    everything = SimpleNamespace(runs=[one])
    good = {"connectivity": 1.0, "byzantine_neighbours": 1}
    for change in ({"edges": [[0, 9]]}, {"edges": [["<script>", 1]]}, {"condition": None}, {"lost": ["x"]}):
        one.records = [{"workers": [0.9, None], "graph": {**told, "condition": good, **change}}]
        assert graphs_of(everything) == [], json.dumps(change)
    one.records = [{"workers": [0.9, None], "graph": {**told, "condition": good}}]
    assert len(graphs_of(everything)) == 1
