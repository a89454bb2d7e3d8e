"""The data sets that can be asked for by name."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import torch

from mixtailor._checks import MissingPackageError
from mixtailor.simulation.cifar import read_cifar_with_digest
from mixtailor.simulation.data import Dataset
from mixtailor.simulation.files import DataError
from mixtailor.simulation.idx import read_idx_with_digest
from mixtailor.simulation.own import is_own, read_data
from mixtailor.simulation.published import CIFAR10, MNIST
from mixtailor.simulation.streams import stream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import numpy.typing as npt

    from mixtailor.simulation.download import Progress

__all__ = ["DATASETS", "cifar10", "digits", "load", "mnist", "synthetic"]

DATASETS = ("digits", "mnist", "cifar10", "synthetic")


def load(
    name: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    download: bool | None = None,
    progress: Progress | None = None,
) -> Dataset:
    """A data set by its name: one of `DATASETS`, or of your own, as `read_data` takes them.

    ``mine.py:data``, ``flowers.npz``, ``flowers.csv`` or a folder of idx files.

    Examples
    --------
    >>> load("digits").classes
    10
    """
    if name == "digits":
        return digits()
    if name == "synthetic":
        return synthetic()
    if name == "mnist":
        return mnist(folder, download=download, progress=progress)
    if name == "cifar10":
        return cifar10(folder, download=download, progress=progress)
    if is_own(name):
        return read_data(name)
    raise ValueError(
        f"There is no data set {name!r}. There are {', '.join(DATASETS)}. Of your own, name a file: mine.npz, "
        "mine.csv, a folder of idx files, or mine.py:data."
    )


def digits() -> Dataset:
    """1,797 handwritten digits of 8 x 8 pixels, which scikit-learn brings along.

    Within each digit every fifth example is for testing: 1,442 to train on and 355 to test, the same on every machine
    and in every version. The order is that of the collection, whose writers follow each other, so both parts have all
    of them.

    Examples
    --------
    >>> data = digits()
    >>> len(data), len(data.test_labels), data.shape
    (1442, 355, (1, 8, 8))

    References
    ----------
    .. [1] Alpaydin, Kaynak, "Optical Recognition of Handwritten Digits", UCI Machine Learning Repository, 1998.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise MissingPackageError("The digits data set", "scikit-learn", "train") from error
    loaded = load_digits()
    images = torch.from_numpy(loaded.images.astype(np.uint8)[:, None])
    labels = torch.from_numpy(loaded.target.astype(np.int64))
    testing = torch.zeros(len(labels), dtype=torch.bool)
    for digit in range(10):
        testing[torch.nonzero(labels == digit).flatten()[4::5]] = True
    return Dataset(
        "digits",
        10,
        images[~testing],
        labels[~testing],
        images[testing],
        labels[testing],
        unit=16.0,
        mean=(0.3053,),
        deviation=(0.3760,),
    )


def mnist(
    folder: str | os.PathLike[str] | None = None, *, download: bool | None = None, progress: Progress | None = None
) -> Dataset:
    """MNIST: 60,000 + 10,000 handwritten digits of 28 x 28 pixels.

    Parameters
    ----------
    folder : path, optional
        Where the four idx files are, gzipped or not, themselves or in ``mnist/``; else ``MIXTAILOR_DATA``, else the
        user's cache.
    download : bool, optional
        Whether files that are absent may be fetched; by default only with ``MIXTAILOR_DOWNLOAD=1`` in the environment.
    progress : callable, optional
        Called as ``progress(name, bytes_done, bytes_in_all)`` while downloading.

    References
    ----------
    .. [1] LeCun, Cortes, Burges, "The MNIST database of handwritten digits", 1998.
    """
    paths = MNIST.locate(folder, download=_allowed(download), progress=progress)
    arrays = {name: _checked_idx(name, path) for name, path in paths.items()}
    return Dataset(
        "mnist",
        10,
        torch.from_numpy(arrays["train-images-idx3-ubyte"]).unsqueeze(1),
        torch.from_numpy(arrays["train-labels-idx1-ubyte"]),
        torch.from_numpy(arrays["t10k-images-idx3-ubyte"]).unsqueeze(1),
        torch.from_numpy(arrays["t10k-labels-idx1-ubyte"]),
        unit=255.0,
        mean=(0.1307,),
        deviation=(0.3081,),
    )


def cifar10(
    folder: str | os.PathLike[str] | None = None, *, download: bool | None = None, progress: Progress | None = None
) -> Dataset:
    """CIFAR-10: 50,000 + 10,000 colour images of 32 x 32 pixels in ten classes.

    Parameters
    ----------
    folder : path, optional
        Where the six files of the binary version are, gzipped or not, themselves or in ``cifar10/``; else
        ``MIXTAILOR_DATA``, else the user's cache.
    download : bool, optional
        Whether files that are absent may be fetched; by default only with ``MIXTAILOR_DOWNLOAD=1`` in the environment.
    progress : callable, optional
        Called as ``progress(name, bytes_done, bytes_in_all)`` while downloading.

    References
    ----------
    .. [1] Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """
    paths = CIFAR10.locate(folder, download=_allowed(download), progress=progress)
    training = [_checked_cifar(name, path) for name, path in paths.items() if name.startswith("data_batch")]
    test_images, test_labels = _checked_cifar("test_batch.bin", paths["test_batch.bin"])
    return Dataset(
        "cifar10",
        10,
        torch.from_numpy(np.concatenate([images for images, _ in training])),
        torch.from_numpy(np.concatenate([labels for _, labels in training])),
        torch.from_numpy(np.ascontiguousarray(test_images)),
        torch.from_numpy(test_labels),
        unit=255.0,
        mean=(0.4914, 0.4822, 0.4465),
        deviation=(0.2023, 0.1994, 0.2010),
    )


def synthetic(
    *,
    classes: int = 10,
    features: int = 20,
    train: int = 2_000,
    test: int = 1_000,
    separation: float = 2.0,
    seed: int = 0,
) -> Dataset:
    r"""A mixture of Gaussians, one for each class, with equal weights and unit covariance.

    .. math:: x = \mathrm{separation} \cdot c_y + z, \quad c_k, z \sim N(0, I), \quad y = i \bmod \mathrm{classes}

    Parameters
    ----------
    classes, features, train, test : int
        How many classes, numbers per example, and examples of each kind.
    separation : float
        How far the classes are apart; 0 makes them indistinguishable.
    seed : int
        The same seed gives the same data.

    Examples
    --------
    >>> data = synthetic(classes=3, train=30, test=9)
    >>> data.train_labels.bincount().tolist()
    [10, 10, 10]
    """
    if min(classes, features, train, test) < 1:
        raise ValueError(
            "synthetic needs at least 1 class, feature, training and test example; got "
            f"classes={classes}, features={features}, train={train}, test={test}."
        )
    random = stream(seed, "synthetic")
    centres = separation * random.standard_normal((classes, features))
    parts: Mapping[str, int] = {"train": train, "test": test}
    drawn = {}
    for part, count in parts.items():
        labels = np.arange(count) % classes
        drawn[part] = (centres[labels] + random.standard_normal((count, features)), labels)
    return Dataset(
        "synthetic",
        classes,
        torch.from_numpy(drawn["train"][0]),
        torch.from_numpy(drawn["train"][1]),
        torch.from_numpy(drawn["test"][0]),
        torch.from_numpy(drawn["test"][1]),
    )


def _allowed(download: bool | None) -> bool:
    """Whether files may be fetched: what the call says, else what the environment says; not, where nobody says so."""
    return os.environ.get("MIXTAILOR_DOWNLOAD") == "1" if download is None else download


def _checked_idx(name: str, path: Path) -> npt.NDArray[np.uint8]:
    array, digest = read_idx_with_digest(path)
    if array.ndim != (3 if "images" in name else 1):
        raise DataError(
            f"{path} should be {name} and has {array.ndim} dimensions: images and labels were swapped. Rename them."
        )
    MNIST.check(name, path, digest)
    return array


def _checked_cifar(name: str, path: Path) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    images, labels, digest = read_cifar_with_digest(path, records=10_000)
    CIFAR10.check(name, path, digest)
    return images, labels
