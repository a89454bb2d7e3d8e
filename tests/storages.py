"""The storages that updates can have: what a caller would send, a reference in the same form, and the way back."""

import dataclasses
import inspect
from collections import OrderedDict

import numpy as np

from mixtailor.intake import quantised, receive, sparse
from mixtailor.storage import Shard

try:
    import torch

    from mixtailor.intake.device import on_device as received_on_device
except ModuleNotFoundError:  # the base package is tested without it
    torch = None


def _leaves(row, library):
    a, b = len(row) // 3, len(row) // 3 + 7
    parts = {
        "conv.weight": row[:a].reshape(-1, 5) if a % 5 == 0 else row[:a],
        "block": OrderedDict(bias=row[a:b], deep=[row[b : b + 1], row[b + 1 :]]),
    }
    if library is np:
        return parts
    return {
        "conv.weight": torch.from_numpy(parts["conv.weight"].copy()),
        "block": OrderedDict(
            bias=torch.from_numpy(parts["block"]["bias"].copy()),
            deep=[torch.from_numpy(part.copy()) for part in parts["block"]["deep"]],
        ),
    }


def _flat_tree(answer):
    pieces = [answer["conv.weight"], answer["block"]["bias"], *answer["block"]["deep"]]
    return np.concatenate([np.asarray(piece).reshape(-1) for piece in pieces])


def matrix(rows, reference, folder):
    return rows, reference, lambda answer: answer


def columns_first(rows, reference, folder):
    return np.asfortranarray(rows), reference, lambda answer: answer


def list_of_arrays(rows, reference, folder):
    return [row.copy() for row in rows], reference, lambda answer: answer


def tensor(rows, reference, folder):
    return torch.from_numpy(rows), torch.from_numpy(reference), lambda answer: answer.numpy()


def numpy_layers(rows, reference, folder):
    return [_leaves(row, np) for row in rows], _leaves(reference, np), _flat_tree


def torch_layers(rows, reference, folder):
    return [_leaves(row, torch) for row in rows], _leaves(reference, torch), _flat_tree


def npy_files(rows, reference, folder):
    paths = [folder / f"{index}.npy" for index in range(len(rows))]
    for path, row in zip(paths, rows, strict=True):
        np.save(path, row)
    return paths, reference, lambda answer: answer


def safetensors_files(rows, reference, folder):
    from safetensors.numpy import save_file

    cut = rows.shape[1] // 2
    paths = [folder / f"{index}.safetensors" for index in range(len(rows))]
    for path, row in zip(paths, rows, strict=True):
        save_file({"a": row[:cut].copy(), "b": row[cut:].copy()}, path)
    return (
        paths,
        {"a": reference[:cut], "b": reference[cut:]},
        lambda answer: np.concatenate([answer["a"], answer["b"]]),
    )


def on_device(rows, reference, folder):
    return received_on_device(torch.from_numpy(rows)), torch.from_numpy(reference), lambda answer: answer.numpy()


def differences(rows, reference, folder):
    """Models, and the base that they differ from by the rows; its entries are eighths, so that little is rounded."""
    base = np.round(8 * np.random.default_rng(5).standard_normal(rows.shape[1])) / 8
    models = [_leaves(row.astype(np.float64) + base, np) for row in rows]
    received = receive([*models, _leaves(base, np)])
    n = len(rows)
    arrival = dataclasses.replace(received, received=tuple(range(n)), n=n, base=True)
    return arrival, _leaves(reference, np), _flat_tree


def shard(rows, reference, folder):
    """A slice that happens to hold all coordinates: what one process of a group of one has."""
    received = receive(rows)
    arrival = dataclasses.replace(received, storage=Shard(received.storage, 0, rows.shape[1]))
    return arrival, reference, lambda answer: answer


def sparse_pairs(rows, reference, folder):
    """Every coordinate, in a random order."""
    random = np.random.default_rng(7)
    orders = [random.permutation(rows.shape[1]) for _ in rows]
    sent = [(order, row[order]) for order, row in zip(orders, rows, strict=True)]
    return sparse(sent, rows.shape[1]), reference, lambda answer: answer


def eight_bits(rows, reference, folder):
    """A scale for each coordinate, so that nothing is lost."""
    sent = [(np.ones(rows.shape[1], np.int8), row) for row in rows]
    return quantised(sent, rows.shape[1], 1), reference, lambda answer: answer


# Every function of this module that takes rows: a new storage is tested as soon as it stands here.
STORAGES = {
    name: house
    for name, house in list(globals().items())
    if inspect.isfunction(house)
    and house.__module__ == __name__
    and not name.startswith("_")
    and (torch is not None or name not in ("tensor", "torch_layers", "on_device"))
}
