"""An experiment whose page the tests look at."""

from pathlib import Path

import pytest

TEXT = """
title = "A page <script>alert(1)</script> & its tests"
description = "Three rules, two attacks."
[run]
data = "synthetic"
model = "logistic"
rounds = 12
evaluate_every = 3
batch = 4
rule = ["krum", {name = "paper_pool", label = "MixTailor"}, {name = "mean", label = "<b>mean</b>"}]
attack = [{name = "tailored", epsilon = 0.1}, {name = "tailored", epsilon = 10.0}]
seed = [0, 1]
[[claims]]
text = "MixTailor is above the mean"
rule = "MixTailor"
than = "<b>mean</b>"
[[numbers]]
panel = 'A page <script>alert(1)</script> & its tests'
rule = "krum"
low = 83.0
high = 85.0
"""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small experiment that was run."""
    import torch  # here, so that the folder is collected, and skipped, where it is missing

    from mixtailor.experiments import Experiment, run

    torch.set_num_threads(1)
    out = tmp_path_factory.mktemp("results")
    done = run(Experiment.parse(TEXT, "page"), out, frames=3)
    assert not any(item.error for item in done)
    return out / "page"
