"""The parts together: a network learns, and a test set says how well."""

import numpy as np
import torch
from torch import nn

from mixtailor.simulation import Batches, Evaluation, Layout, WorkerGradients, build, digits, iid, stream, stream_seed


def test_digits_are_learnt_from_ten_workers() -> None:
    """Plain averaging over 150 rounds reaches what a small network reaches on these digits."""
    data = digits()
    model = build("mlp", data, seed=0)
    weights = Layout.of(model).flatten(model)
    gradients, evaluate = WorkerGradients(model), Evaluation(model, data)
    batches = Batches(iid(data.train_labels.numpy(), 10, stream(0, "partition")), size=16, seed=0)
    before, _ = evaluate(weights)
    for number in range(150):
        matrix, _ = gradients(weights, *data.train(batches(number)), seed=stream_seed(0, "dropout", number))
        weights = weights - 0.5 * matrix.mean(0)
    after, loss = evaluate(weights)
    assert before < 0.3 and after > 0.93 and loss < 0.3


def test_evaluation_switches_dropout_off_and_covers_everything() -> None:
    data = digits()
    model = nn.Sequential(nn.Flatten(), nn.Dropout(0.9), nn.Linear(64, 10))
    weights = Layout.of(model).flatten(model)
    accuracy, loss = Evaluation(model, data, batch=100)(weights)
    inputs, labels = data.test()
    outputs = model.eval()(inputs)
    assert np.isclose(accuracy, float((outputs.argmax(1) == labels).double().mean()))
    assert np.isclose(loss, float(nn.functional.cross_entropy(outputs, labels).detach()), rtol=1e-5)
    assert Evaluation(model, data, batch=7)(weights)[0] == accuracy
    assert not torch.equal(outputs, torch.zeros_like(outputs))
