"""The networks that can be asked for by name. All are plain sequences of layers; any `torch.nn.Module` does as well."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING

from torch import nn

from mixtailor._references import is_reference, loaded
from mixtailor.simulation.randomness import seeded
from mixtailor.simulation.streams import stream_seed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mixtailor.simulation.data import Dataset

    Shape = tuple[int, ...]

__all__ = ["MODELS", "build", "cnn", "large_cnn", "logistic", "mlp", "network", "small_cnn"]


def cnn(shape: Shape, classes: int, *, dropout: float = 0.5) -> nn.Sequential:
    """The network of the MixTailor paper: two convolutions and two full layers, with dropout between.

    Convolutions of 10 and 20 channels with 5 x 5 windows, each followed by 2 x 2 pooling, then 50 hidden units.

    Parameters
    ----------
    shape : tuple of int
        The shape of one example, channels first, at least 16 x 16.
    classes : int
        How many labels there are.
    dropout : float
        The share of channels, and of hidden units, left out at random.

    Examples
    --------
    On MNIST it has the 21,840 parameters of the classic small network, on CIFAR-10 31,340.

    >>> sum(parameter.numel() for parameter in cnn((1, 28, 28), 10).parameters())
    21840
    >>> sum(parameter.numel() for parameter in cnn((3, 32, 32), 10).parameters())
    31340

    Notes
    -----
    The paper gives four layers, two of each kind, with dropout between the convolutional and the full layers, for MNIST
    and CIFAR-10 alike, and no widths. The widths here are those of the convolutional network for MNIST in the authors'
    published code; for CIFAR-10 the same network is applied to three channels. (In that code the option ``cnn``
    selects two full layers, 784-100-10, for MNIST, which is ``mlp(shape, 10, hidden=100)`` here.)
    """
    channels, height, width = _image(shape, "cnn", 16)
    flat = 20 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 10, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(10, 20, 5),
        nn.Dropout2d(dropout),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(flat, 50),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(50, classes),
    )


def large_cnn(shape: Shape, classes: int, *, dropout: float = 0.5) -> nn.Sequential:
    """The network for CIFAR-10 in the code that the authors of the MixTailor paper published.

    Convolutions of 64 and 128 channels with 5 x 5 windows and no padding, each followed by 2 x 2 pooling, then 1,000
    hidden units. Dropout is in front of both full layers.

    Parameters
    ----------
    shape : tuple of int
        The shape of one example, channels first, at least 16 x 16.
    classes : int
        The number of labels.
    dropout : float
        The share of features, and of hidden units, that is left out at random.

    Examples
    --------
    >>> sum(parameter.numel() for parameter in large_cnn((3, 32, 32), 10).parameters())
    3420802
    """
    channels, height, width = _image(shape, "large_cnn", 16)
    flat = 128 * (((height - 4) // 2 - 4) // 2) * (((width - 4) // 2 - 4) // 2)
    return nn.Sequential(
        nn.Conv2d(channels, 64, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Conv2d(64, 128, 5),
        nn.MaxPool2d(2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(flat, 1000),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(1000, classes),
    )


def small_cnn(shape: Shape, classes: int) -> nn.Sequential:
    """One convolution of 8 channels, pooling, and one full layer: for 8 x 8 digits.

    Examples
    --------
    >>> sum(parameter.numel() for parameter in small_cnn((1, 8, 8), 10).parameters())
    1370
    """
    channels, height, width = _image(shape, "small_cnn", 2)
    return nn.Sequential(
        nn.Conv2d(channels, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(8 * (height // 2) * (width // 2), classes),
    )


def mlp(shape: Shape, classes: int, *, hidden: int = 64) -> nn.Sequential:
    """One hidden layer.

    Examples
    --------
    With 100 hidden units it is what the published code of the MixTailor paper trains on MNIST.

    >>> sum(parameter.numel() for parameter in mlp((1, 28, 28), 10, hidden=100).parameters())
    79510
    >>> sum(parameter.numel() for parameter in mlp((1, 8, 8), 10).parameters())
    4810
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), hidden), nn.ReLU(), nn.Linear(hidden, classes))


def logistic(shape: Shape, classes: int) -> nn.Sequential:
    """Logistic regression: one full layer, a convex problem.

    Examples
    --------
    >>> sum(parameter.numel() for parameter in logistic((20,), 10).parameters())
    210
    """
    return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), classes))


MODELS: Mapping[str, Callable[..., nn.Sequential]] = {
    "cnn": cnn,
    "large_cnn": large_cnn,
    "small_cnn": small_cnn,
    "mlp": mlp,
    "logistic": logistic,
}


def build(
    model: str | nn.Module | Callable[..., nn.Module], data: Dataset, *, seed: int, **options: float
) -> nn.Module:
    """A network for a data set: by its name, with initial weights drawn from the seed, or a module as it is.

    Parameters
    ----------
    model : str, torch.nn.Module or callable
        One of `MODELS`; ``mine.py:Net``, where your network is written; your own network; or a class or a function that
        makes one. What makes one is called with initial weights from the seed, and with the shape of an example and the
        number of classes where it has parameters called `shape` and `classes`.
    data : Dataset
        What it is for.
    seed : int
        The seed of the run.
    **options
        Passed on to the network, ``hidden=100`` for instance.

    Examples
    --------
    >>> from mixtailor.simulation import digits
    >>> build("mlp", digits(), seed=0, hidden=32)[1]
    Linear(in_features=64, out_features=32, bias=True)
    """
    maker = network(model)
    if isinstance(maker, nn.Module):
        return maker
    known = {"shape": data.shape, "classes": data.classes}
    given = {key: known[key] for key in inspect.signature(maker).parameters if key in known}
    with seeded(stream_seed(seed, "weights")):
        made = maker(**given, **options)
    if not isinstance(made, nn.Module):
        raise TypeError(f"The model {model!r} needs to make a torch.nn.Module and made {type(made).__name__}.")
    return made


def network(model: str | nn.Module | Callable[..., nn.Module]) -> nn.Module | Callable[..., nn.Module]:
    """A network, or what makes one, from any of the forms that `build` takes."""
    if isinstance(model, str):
        if model not in MODELS and not is_reference(model):
            raise ValueError(
                f"There is no model {model!r}. There are {', '.join(MODELS)}. Of your own, pass a torch.nn.Module, or "
                "name its file: 'mine.py:Net'."
            )
        model = MODELS[model] if model in MODELS else loaded(model)
    if not isinstance(model, nn.Module) and not callable(model):
        raise TypeError(f"A model needs to be a torch.nn.Module, or what makes one, and is {type(model).__name__}.")
    return model


def _image(shape: Shape, name: str, least: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < least:
        raise ValueError(
            f"The model {name!r} needs images of shape (channels, height, width) of at least {least} x {least}, and "
            f"the examples have shape {shape}. Use 'mlp', or reshape them."
        )
    return shape[0], shape[1], shape[2]
