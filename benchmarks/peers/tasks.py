"""The peers' rules, each with its own defaults and in the input forms that it takes; the fastest form counts.

A task is named ``rule @ library (form)``. Where a library has no such rule, there is no task; where its definition
differs from ours, `remarks` says how. Rows arrive in the form before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks._machine import versions as installed
from benchmarks.peers._stand_in import put_in_place

STAND_IN = put_in_place()

import torch  # noqa: E402  # after the stand-in, as all that follow: ByzFL looks for torchvision when it is imported
from byzfl import CAF, MDA, SMEA, GeometricMedian, Krum, Meamed, Median, MultiKrum, TrMean  # noqa: E402  # as above
from byzfl.aggregators.preaggregators import NNM  # noqa: E402  # as above
from byzpy.aggregators import coordinate_wise as columns  # noqa: E402  # as above
from byzpy.aggregators import geometric_wise as geometric  # noqa: E402  # as above
from byzpy.aggregators import norm_wise as norms  # noqa: E402  # as above
from byzpy.pre_aggregators.nnm import NearestNeighborMixing  # noqa: E402  # as above
from flwr.server.strategy import aggregate as flower  # noqa: E402  # as above
from krum.primitives.aggregators import brute, bulyan, geometric_median, krum, median, multikrum, trimmed_mean  # noqa: E402
from torchjd.aggregation import Krum as GramianKrum  # noqa: E402  # as above
from torchjd.aggregation import TrimmedMean as SortedTrimmedMean  # noqa: E402  # as above

__all__ = ["remarks", "tasks", "versions"]

Bind = Callable[[Any], Callable[[], Any]]


def _matrix(rule: Callable[[Any], Any]) -> Bind:
    return lambda rows: lambda: rule(rows)


def _tensor(rule: Callable[[Any], Any]) -> Bind:
    def bind(rows: Any) -> Callable[[], Any]:
        # A list where rows differ in length.
        given = [torch.from_numpy(row) for row in rows] if isinstance(rows, list) else torch.from_numpy(rows)
        return lambda: rule(given)

    return bind


def _tensors(rule: Callable[[Any], Any]) -> Bind:
    def bind(rows: Any) -> Callable[[], Any]:
        tensors = [torch.from_numpy(row) for row in rows]
        return lambda: rule(tensors)

    return bind


def _layers(rule: Callable[[Any], Any]) -> Bind:
    """Flower's form: a list of clients, each a list of layers and a number of examples; Bulyan empties the list."""

    def bind(rows: Any) -> Callable[[], Any]:
        clients = [([row], 1) for row in rows]
        return lambda: rule(list(clients))

    return bind


def tasks(n: int, f: int) -> dict[str, Bind]:
    """All tasks for n rows of which f may be Byzantine."""
    m = n - f
    byzfl = {
        "Comed": Median(),
        "TrimmedMean": TrMean(f=f),
        "Meamed": Meamed(f=f),
        "Krum": Krum(f=f),
        "MultiKrum": MultiKrum(f=f),
        "GeometricMedian": GeometricMedian(),
        "MDA": MDA(f=f),
        "SMEA": SMEA(f=f),
        "CAF": CAF(f=f),
        "NNM >> Comed": _chain(NNM(f=f), Median()),
        "NNM >> TrimmedMean": _chain(NNM(f=f), TrMean(f=f)),
        "NNM >> Krum": _chain(NNM(f=f), Krum(f=f)),
    }
    byzpy = {
        "Comed": columns.CoordinateWiseMedian(),
        "TrimmedMean": columns.CoordinateWiseTrimmedMean(f=f),
        "Meamed": columns.MeanOfMedians(f=f),
        "Krum": geometric.Krum(f=f),
        "MultiKrum": geometric.MultiKrum(f=f, q=m),
        "GeometricMedian": geometric.GeometricMedian(),
        "MDA": geometric.MinimumDiameterAveraging(f=f),
        "SMEA": geometric.SMEA(f=f),
        "CAF": norms.CAF(f=f),
    }
    mixing = NearestNeighborMixing(f=f)
    mixed = columns.CoordinateWiseMedian()
    answer: dict[str, Bind] = {}
    for rule, instance in byzfl.items():
        answer[f"{rule} @ ByzFL (numpy)"] = _matrix(instance)
        answer[f"{rule} @ ByzFL (torch)"] = _tensor(instance)
    for rule, one in byzpy.items():
        answer[f"{rule} @ ByzPy (torch)"] = _tensors(one.aggregate)
    answer["NNM >> Comed @ ByzPy (torch)"] = _tensors(lambda rows: mixed.aggregate(mixing.pre_aggregate(rows)))
    own: dict[str, Callable[[Any], Any]] = {
        "Comed": median.Median.aggregate,
        "TrimmedMean": lambda rows: trimmed_mean.TrimmedMean.aggregate(rows, f=f),
        "Krum": lambda rows: krum.Krum.aggregate(rows, n=n, f=f),
        "MultiKrum": lambda rows: multikrum.MultiKrum.aggregate(rows, n=n, f=f, m=m),
        "GeometricMedian": lambda rows: geometric_median.GeometricMedian.aggregate(rows, n=n, f=f),
        "Bulyan": lambda rows: bulyan.Bulyan.aggregate(rows, n=n, f=f, m=1),
        "MDA": lambda rows: brute.Brute.aggregate(rows, n=n, f=f),
    }
    answer.update({f"{rule} @ krum (torch)": _tensor(call) for rule, call in own.items()})
    clients: dict[str, Callable[[Any], Any]] = {
        "Comed": flower.aggregate_median,
        # The share is cut to a whole number of rows, and f / n may round to below f.
        "TrimmedMean": lambda rows: flower.aggregate_trimmed_avg(rows, (f + 0.5) / n),
        "Krum": lambda rows: flower.aggregate_krum(rows, f, 0),
        "MultiKrum": lambda rows: flower.aggregate_krum(rows, f, m),
        "Bulyan": lambda rows: flower.aggregate_bulyan(rows, f, flower.aggregate_krum, to_keep=0),
    }
    answer.update({f"{rule} @ Flower (numpy)": _layers(call) for rule, call in clients.items()})
    jacobian = {
        "TrimmedMean": SortedTrimmedMean(f),
        "Krum": GramianKrum(f),
        "MultiKrum": GramianKrum(f, n_selected=m),
    }
    answer.update({f"{rule} @ TorchJD (torch)": _tensor(call) for rule, call in jacobian.items()})
    return answer


def _chain(before: Callable[[Any], Any], rule: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda rows: rule(before(rows))


def remarks() -> dict[str, str]:
    """Where a peer's definition is not ours. Tasks that are not here should agree to rounding."""
    neighbours = "scores over n - f - 1 neighbours, one more than the paper"
    lower = "with n even, the lower of the two middle values"
    gramian = "distances are not squared, and come from a float32 Gramian, not from differences"
    loose = "a fixed smoothing of 0.1, far above such gradients, so that the answer is the mean"
    return {
        "Comed @ ByzPy (torch)": lower,
        "Meamed @ ByzPy (torch)": f"around {lower}",
        "NNM >> Comed @ ByzPy (torch)": lower,
        **{f"{rule} @ ByzFL ({form})": neighbours for rule in ("Krum", "MultiKrum") for form in ("numpy", "torch")},
        **{f"NNM >> Krum @ ByzFL ({form})": neighbours for form in ("numpy", "torch")},
        **{f"{rule} @ ByzPy (torch)": neighbours for rule in ("Krum", "MultiKrum")},
        **{f"{rule} @ TorchJD (torch)": gramian for rule in ("Krum", "MultiKrum")},
        **{f"GeometricMedian @ ByzFL ({form})": f"three iterations from zero; {loose}" for form in ("numpy", "torch")},
        "GeometricMedian @ ByzPy (torch)": "stops at a step of 1e-6, whatever the size of the rows",
        "GeometricMedian @ krum (torch)": loose,
        "Bulyan @ krum (torch)": "n - 2f - 2 picks, and then a trimmed mean",
        **{
            f"{rule} @ ByzFL ({form})": "the spectrum from one step of the power method, from a random vector"
            for rule in ("SMEA", "CAF")
            for form in ("numpy", "torch")
        },
        "CAF @ ByzPy (torch)": "the spectrum from three steps of the power method",
        **{
            f"MDA @ {peer}": "of sets with equal diameters, the first by row index"
            for peer in ("ByzFL (numpy)", "ByzFL (torch)", "ByzPy (torch)", "krum (torch)")
        },
    }


def versions() -> dict[str, str]:
    """What is installed here, and whether torchvision is a stand-in."""
    found = installed("byzfl", "byzpy", "krum", "flwr", "torchjd", "torch", "numpy")
    return {**found, **({"torchvision": "a stand-in at import time"} if STAND_IN else {})}
