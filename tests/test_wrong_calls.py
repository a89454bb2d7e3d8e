"""Calls that people try first: each works, or gets a sentence that says what to write."""

import numpy as np
import pytest
import torch
from torch import nn

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.simulation import Dataset, Settings, Simulation, as_dataset, dirichlet, synthetic

SETTINGS = Settings(n=9, byzantine=2, rounds=2, batch=4, learning_rate=0.1, evaluate_every=1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mt.NNM(f=2)(np.eye(9)), "(NNM(f=2) >> mixtailor.Comed())(updates)"),
        (lambda: mt.MixTailor("default_pool"), "MixTailor(default_pool(f=2))"),
        (lambda: mt.MixTailor(), "MixTailor(default_pool(f=2))"),
        (lambda: mt.MixTailor(seed=1), "entropy=SeededEntropy(seed)"),
        (lambda: mt.MixTailor([mt.Comed()], colour=1), "takes no parameter 'colour'"),
        (lambda: mt.make_rule("krum"), "make_rule('krum', f=2)"),
        (lambda: mt.MixTailor(["krum"]), "make_rule('krum', f=2)"),
        (lambda: mt.MixTailor([mt.Krum]), "Make a rule of it: Krum(f=2)."),
        (lambda: mt.MixTailor([mt.NNM(f=1)]), "NNM(f=1) >> mixtailor.Comed()"),
        (lambda: mt.MixTailor([Tailored()]), "is neither"),
        (lambda: mt.MixTailor(mt.Krum(f=2)), "rules in brackets: MixTailor([...])."),
        (lambda: mt.NNM(f=1) >> "krum", "make_rule('krum', f=2)"),
        (lambda: mt.Krum(f=1) >> mt.NNM(f=1), "Write NNM(f=1) >> Krum(f=1)."),
        (lambda: mt.Comed()([nn.Linear(2, 2)] * 3), "give its state_dict()"),
        (lambda: mt.Comed()([nn.Linear(2, 2).parameters()] * 3), "give a list"),
        (
            lambda: Simulation((np.eye(60), np.arange(60) % 3), nn.Linear(59, 3), mt.Comed(), settings=SETTINGS),
            "does not accept the examples of 'data', which have shape (60,)",
        ),
        (
            lambda: Simulation((np.eye(60), np.arange(60) % 3), nn.Linear(60, 2), mt.Comed(), settings=SETTINGS),
            "one output for each of the 3 classes of 'data', (1, 3) for one example, and gave shape (1, 2)",
        ),
        (lambda: mt.Bulyan(f=1, then="comed"), "then=mixtailor.make_rule('comed', f=2)"),
        (lambda: Simulation(synthetic(), "logistic", "krum", settings=SETTINGS), "make_rule('krum', f=2)"),
        (lambda: Simulation(synthetic(), "logistic", mt.Krum, settings=SETTINGS), "Krum(f=2)"),
        (
            lambda: Simulation("synthetik", "logistic", mt.Comed(), settings=SETTINGS),
            "There is no data set 'synthetik'",
        ),
        (lambda: Simulation(synthetic(), 7, mt.Comed(), settings=SETTINGS), "needs to be a torch.nn.Module"),
        (
            lambda: Simulation(synthetic(), "logistic", mt.Comed(), "tailored", settings=SETTINGS),
            "mixtailor.attacks.make('tailored')",
        ),
        (lambda: Simulation(synthetic(), "logistic", mt.Comed(), Tailored, settings=SETTINGS), "Write Tailored()"),
        (
            lambda: Simulation(synthetic(), "logistic", mt.Comed(), settings=SETTINGS, partition="dirichlet"),
            "dirichlet(alpha=0.3)",
        ),
        (lambda: dirichlet(0.3), "Write dirichlet(alpha=0.3)."),
        (lambda: mt.compare("krum", folder="runs"), "Write out=..., and name=..."),
        (lambda: as_dataset(np.eye(3)), "a tuple (inputs, labels)"),
        (
            lambda: Simulation((np.eye(60), np.linspace(0, 1, 60)), nn.Linear(60, 3), mt.Comed()).run(),
            "torch.nn.Linear(features, 1)",
        ),
        (lambda: Dataset("x", 2, np.eye(2), np.ones(2), np.eye(2), np.ones(2)), "or for regression classes=1"),
        (lambda: Dataset("x", 2, np.eye(2), ["a", "b"], np.eye(2), ["a", "b"]), "as_dataset numbers labels"),
    ],
)
def test_a_sentence_says_what_to_write(call, words) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        call()
    assert words in str(caught.value)


def test_arrays_are_data() -> None:
    """numpy in place of tensors, in a data set and as a tuple."""
    labels = np.arange(60) % 2
    data = Dataset("x", 2, np.eye(2)[labels], labels, np.eye(2)[labels[:10]], labels[:10])
    assert data.train_inputs.dtype == torch.float32 and data.train_labels.dtype == torch.int64
    assert len(Simulation((np.eye(2)[labels], labels), "logistic", mt.Comed(), settings=SETTINGS).run().records) == 3


def test_a_float64_network_trains() -> None:
    network = nn.Sequential(nn.Linear(20, 10)).double()
    outcome = Simulation(synthetic(), network, mt.Krum(f=2), Tailored(), settings=SETTINGS).run()
    assert outcome.weights.dtype == torch.float64 and 0.0 <= outcome.accuracy() <= 1.0


def test_a_function_is_a_rule_in_a_simulation_and_gets_tensors() -> None:
    seen = []

    def middle(updates):
        seen.append(type(updates))
        return updates.median(dim=0).values

    outcome = Simulation(synthetic(), "logistic", middle, Tailored(), settings=SETTINGS).run()
    assert seen == [torch.Tensor] * 2 and len(outcome.records) == 3


@pytest.mark.parametrize("updates", [torch.eye(4), list(torch.eye(4)), [{"w": row} for row in torch.eye(4)]])
def test_a_function_gets_tensors_where_updates_are_tensors(updates) -> None:
    seen = []

    def first(rows):
        seen.append(rows)
        return rows[0]

    made = mt.Plain(first)(updates)
    assert isinstance(seen[0], torch.Tensor) and seen[0].shape == (4, 4)
    assert torch.equal(made["w"] if isinstance(made, dict) else made, torch.eye(4)[0])


def test_a_function_gets_arrays_where_updates_are_arrays() -> None:
    mt.Plain(lambda rows: (isinstance(rows, np.ndarray) or 1 / 0) and rows[0])(np.eye(3))


def test_half_precision_tensors_come_back_as_they_were() -> None:
    made = mt.Plain(lambda rows: rows.mean(dim=0))(torch.ones(3, 2, dtype=torch.bfloat16))
    assert made.dtype == torch.bfloat16 and made.tolist() == [1.0, 1.0]
