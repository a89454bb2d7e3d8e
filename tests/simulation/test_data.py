"""Data sets in memory: shapes, splits, normalisation, and what is refused."""

import numpy as np
import pytest
import torch

from mixtailor.simulation import DATASETS, Dataset, digits, load, synthetic


def test_digits_are_split_within_each_digit() -> None:
    """Each digit gives a fifth to the test, training and test are disjoint and together everything."""
    from sklearn.datasets import load_digits

    data = digits()
    train, test = data.train_labels.bincount(), data.test_labels.bincount()
    assert (test == (train + test) // 5).all()
    together = torch.cat([data.train_inputs, data.test_inputs]).flatten(1).tolist()
    assert sorted(together) == sorted(load_digits().data.astype(int).tolist())


def test_digits_are_normalised() -> None:
    inputs, _ = digits().train()
    assert abs(float(inputs.mean())) < 1e-3 and abs(float(inputs.std()) - 1) < 1e-3


def test_channels_are_normalised_each_by_its_own_numbers() -> None:
    raw = torch.tensor([[[[0, 255]], [[51, 102]]]], dtype=torch.uint8)
    label = torch.tensor([0])
    data = Dataset("two", 1, raw, label, raw, label, unit=255.0, mean=(0.5, 0.2), deviation=(0.5, 0.1))
    inputs, _ = data.train([0])
    assert torch.allclose(inputs, torch.tensor([[[[-1.0, 1.0]], [[0.0, 2.0]]]]), atol=1e-6)
    assert torch.allclose(data.test()[0], inputs)
    assert raw.flatten().tolist() == [0, 255, 51, 102]


def test_taking_a_batch_never_writes_to_the_data() -> None:
    """Normalisation works in place, on a copy."""
    raw = torch.rand(6, 2)
    kept = raw.clone()
    data = Dataset("floats", 2, raw, torch.tensor([0, 1] * 3), raw, torch.tensor([0, 1] * 3), mean=(0.5,), unit=2.0)
    data.train([[0, 1], [2, 3]])
    data.train()
    data.test()
    assert torch.equal(raw, kept)


def test_a_batch_takes_the_shape_of_its_indices() -> None:
    data = digits()
    indices = np.array([[0, 5, 9], [1, 2, 3]])
    inputs, labels = data.train(indices)
    assert inputs.shape == (2, 3, 1, 8, 8) and inputs.dtype == torch.float32
    assert torch.equal(labels, data.train_labels[torch.as_tensor(indices)])
    assert torch.equal(inputs[1, 2], data.train([3])[0][0])


def test_pooling_averages_squares() -> None:
    """Each pixel is the mean of its square; a row that fills none is left out; normalisation commutes with averages."""
    raw = torch.arange(2 * 1 * 5 * 4, dtype=torch.uint8).reshape(2, 1, 5, 4)
    labels = torch.tensor([0, 1])
    data = Dataset("five by four", 2, raw, labels, raw, labels, unit=255.0, mean=(0.3,), deviation=(0.2,))
    small = data.pooled(2)
    assert small.train_inputs[0].tolist() == [[[2.5, 4.5], [10.5, 12.5]]]
    whole = data.test()[0][:, :, :4].reshape(2, 1, 2, 2, 2, 2).mean(dim=(3, 5))
    assert torch.allclose(small.test()[0], whole, atol=1e-5)
    assert data.pooled(1) is data


@pytest.mark.parametrize("side", [0, 9])
def test_pooling_refuses(side: int) -> None:
    with pytest.raises(ValueError, match="pooling needs images"):
        digits().pooled(side)
    with pytest.raises(ValueError, match="pooling needs images"):
        synthetic().pooled(1)


def test_synthetic_repeats_and_can_be_learnt() -> None:
    """The nearest class mean is nearly always right at separation 2."""
    data = synthetic(seed=1)
    assert torch.equal(data.train_inputs, synthetic(seed=1).train_inputs)
    assert not torch.equal(data.train_inputs, synthetic(seed=2).train_inputs)
    means = torch.stack([data.train_inputs[data.train_labels == label].mean(0) for label in range(10)])
    assert (torch.cdist(data.test_inputs, means).argmin(1) == data.test_labels).float().mean() > 0.95


def test_unknown_names_are_answered_with_the_known() -> None:
    with pytest.raises(ValueError, match=", ".join(DATASETS)):
        load("mnits")


GOOD = (torch.zeros(2, 3), torch.tensor([0, 1]))


@pytest.mark.parametrize(
    ("train", "words"),
    [
        ((torch.zeros(3, 3), torch.tensor([0, 1])), "one label for each"),
        ((torch.zeros(0, 3), torch.zeros(0, dtype=torch.int64)), "at least one example"),
        ((torch.zeros(2, 3), torch.tensor([0.0, 1.0])), "whole numbers"),
        ((torch.zeros(2, 3), torch.tensor([0, 2])), "reach from 0 to 2"),
        ((torch.tensor([[1.0, 2.0, float("nan")]] * 2), torch.tensor([0, 1])), "NaN or infinity"),
        ((torch.zeros(2, 4), torch.tensor([0, 1])), "one shape"),
    ],
)
def test_unusable_tensors_are_refused(train: tuple[torch.Tensor, torch.Tensor], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Dataset("mine", 2, *train, *GOOD)


def test_unusable_normalisation_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        Dataset("mine", 2, *GOOD, *GOOD, deviation=(0.0,))
    with pytest.raises(ValueError, match="one a channel"):
        Dataset("mine", 2, *GOOD, *GOOD, mean=(0.0, 0.0), deviation=(1.0, 1.0))
