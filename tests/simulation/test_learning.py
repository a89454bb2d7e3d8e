"""The parts together: a network learns, and a test set says how well."""

import numpy as np
import pytest
import torch
from torch import nn

from mixtailor.simulation import Batches, Evaluation, Layout, WorkerGradients, build, digits, iid, stream, stream_seed
from mixtailor.simulation.evaluation import _with_fast_pooling


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


@pytest.mark.parametrize("shape", [(3, 24, 24), (2, 7, 9), (1, 2, 2)])
def test_fast_pooling_gives_the_same_bits(shape: tuple[int, ...]) -> None:
    """Ties, negative zeros, infinities and NaN included, in both orders of memory and without a batch."""
    plain = nn.MaxPool2d(2)
    fast = _with_fast_pooling(nn.Sequential(plain))
    assert not any(isinstance(layer, nn.MaxPool2d) for layer in fast.modules())
    values = torch.randint(-2, 3, (5, *shape)).float()
    values[0, 0, 0, 0], values[1, 0, 0, 1], values[2, 0, 1, 0] = torch.nan, torch.inf, -torch.inf
    for given in (values, values.contiguous(memory_format=torch.channels_last), values[3]):
        torch.testing.assert_close(fast(given), plain(given), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "layer", [nn.MaxPool2d(3), nn.MaxPool2d(2, stride=1), nn.MaxPool2d(2, padding=1), nn.MaxPool2d(2, ceil_mode=True)]
)
def test_other_pooling_stays(layer: nn.MaxPool2d) -> None:
    assert _with_fast_pooling(nn.Sequential(layer))[0] is layer  # type: ignore[index]  # a container
    hooked = nn.MaxPool2d(2)
    hooked.register_forward_hook(lambda *_: None)
    assert _with_fast_pooling(hooked) is hooked


def test_evaluation_is_of_the_model_as_it_is() -> None:
    """Two convolutions with pooling, one layer at two places: the accuracy and loss of the model itself."""
    data, pooling = digits(), nn.MaxPool2d(2)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), pooling, nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1), pooling, nn.Flatten(),
        nn.Linear(16, 10),
    )  # fmt: skip
    accuracy, loss = Evaluation(model, data)(Layout.of(model).flatten(model))
    with torch.no_grad():
        outputs = model(data.test()[0])
    assert accuracy == float((outputs.argmax(1) == data.test_labels).double().mean())
    assert loss == pytest.approx(float(nn.functional.cross_entropy(outputs, data.test_labels)), rel=1e-5)
    assert model[1] is pooling and model[4] is pooling
