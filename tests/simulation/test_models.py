"""The networks that can be asked for by name."""

import pytest
import torch
from torch import nn

from mixtailor.simulation import MODELS, Layout, build, cnn, digits, large_cnn, mlp, small_cnn, synthetic
from mixtailor.simulation.layerwise import is_sequence


def test_the_papers_network_has_21840_parameters() -> None:
    """Two convolutions (260 and 5,020) and two full layers (16,050 and 510), with both kinds of dropout."""
    model = cnn((1, 28, 28), 10)
    assert [value.numel() for value in model.parameters()] == [250, 10, 5000, 20, 16000, 50, 500, 10]
    assert Layout.of(model).d == 21_840
    assert {type(layer) for layer in model} >= {nn.Dropout, nn.Dropout2d}
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)
    assert cnn((3, 32, 32), 7)(torch.zeros(2, 3, 32, 32)).shape == (2, 7)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_runs_layer_by_layer(name: str) -> None:
    """The fast way holds for all of ours."""
    assert is_sequence(MODELS[name]((1, 16, 16), 10))


def test_initial_weights_come_from_the_seed_alone() -> None:
    before = torch.get_rng_state()
    first, again, other = (build("mlp", digits(), seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    layout = Layout.of(first)
    assert torch.equal(layout.flatten(first), layout.flatten(again))
    assert not torch.equal(layout.flatten(first), layout.flatten(other))
    assert build(first, digits(), seed=5) is first


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 16 x 16"):
        build("cnn", digits(), seed=0)
    with pytest.raises(ValueError, match=r"\(channels, height, width\)"):
        build("small_cnn", synthetic(), seed=0)
    with pytest.raises(ValueError, match="There are cnn, large_cnn, small_cnn, mlp, logistic"):
        build("resnet", digits(), seed=0)


def test_flattening_is_undone_by_loading() -> None:
    model, other = small_cnn((1, 8, 8), 10), small_cnn((1, 8, 8), 10)
    layout = Layout.of(model)
    layout.load(other, layout.flatten(model))
    assert all(torch.equal(one, two) for one, two in zip(model.parameters(), other.parameters(), strict=True))
    matrix = torch.zeros(3, layout.d)
    layout.views(matrix)["4.bias"][1] = 7
    assert matrix[1, -10:].tolist() == [7] * 10 and matrix.sum() == 70


def test_frozen_tied_and_odd_parameters() -> None:
    """Frozen ones stay out, tied ones count once, and what makes no vector is refused."""
    model = mlp((4,), 2, hidden=3)
    model[1].weight.requires_grad_(False)
    assert Layout.of(model).names == ("1.bias", "3.weight", "3.bias")
    tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    tied[1].weight = tied[0].weight
    assert Layout.of(tied).d == 15
    with pytest.raises(ValueError, match="no trainable"):
        Layout.of(nn.ReLU())
    with pytest.raises(ValueError, match=r"torch.float32, torch.float64"):
        Layout.of(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2).double()))
    with pytest.raises(ValueError, match="have no shape yet"):
        Layout.of(nn.LazyLinear(3))
    with pytest.raises(ValueError, match=r"d = 14 parameters"):
        Layout.of(nn.Linear(6, 2)).views(torch.zeros(13))


def test_the_networks_of_the_published_code() -> None:
    """A perceptron 784-100-10 on MNIST; 64 and 128 channels, then 3,200-1,000-10, on CIFAR-10."""
    assert Layout.of(mlp((1, 28, 28), 10, hidden=100)).d == 79_510
    model = large_cnn((3, 32, 32), 10)
    sizes = [value.numel() for value in model.parameters()]
    assert sizes == [4_800, 64, 204_800, 128, 3_200_000, 1_000, 10_000, 10] and sum(sizes) == 3_420_802
    assert nn.Dropout in {type(layer) for layer in model}
    assert model(torch.zeros(2, 3, 32, 32)).shape == (2, 10)
