"""What ranks do in the tests of sharded updates."""

import warnings

import numpy as np
import samples
import torch
import torch.distributed as dist

import mixtailor as mt
from mixtailor._checks import FaultError
from mixtailor.engines.distributed.exchange import sharded
from mixtailor.engines.distributed.ranks import Ranks
from mixtailor.intake.device import on_device
from mixtailor.testing.laws import Case, FixedKey

EXTRA = {"Plain": lambda rows: np.median(rows, axis=0)}


def cases():
    """Every exported rule, chains and mixtures, with rows that its requirement allows."""
    found = []
    for rule in [*samples.everything(), mt.MixTailor([EXTRA["Plain"]])]:
        found.append((rule, Case.of(rule, d=37)))
    return found


def ask(rule, case, rows, reference):
    honest = range(len(case.rows) - case.f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rule.aggregate(rows, reference=reference, honest=honest, entropy=FixedKey(case.seed))


def facts(result):
    return {
        "update": np.asarray(result.update),
        "selected": result.selected,
        "weights": result.weights,
        "quarantined": [(item.row, item.reason) for item in result.quarantined],
    }


def every_rule(rank, count):
    """The slice of every rule's answer, on clean rows and on rows of which some are NaN in another rank's slice."""
    found = []
    for rule, case in cases():
        ranks = Ranks(case.rows.shape[1], None)
        own = slice(ranks.start, ranks.stop)
        here = [ask(rule, case, sharded(case.rows[:, own].copy(), ranks), case.reference[own])]
        if case.f:
            rows = broken(case)
            here.append(ask(rule, case, sharded(rows[:, own].copy(), ranks), case.reference[own]))
        found.append([facts(result) for result in here])
    return found


def everything(rank, count):
    """All of it in one group: processes are what costs time here."""
    return {body.__name__: body(rank, count) for body in (every_rule, other_storages, too_many_faults)}


def broken(case):
    """One row that is not finite in the first coordinate alone."""
    rows = case.rows.copy()
    rows[-1, 0] = np.nan
    return rows


def other_storages(rank, count):
    """float32, half precision, tensors, a device's path, fewer coordinates than ranks, far rows."""
    found = {}
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(9, 50))
    rows[-1] *= 1e12
    kinds = {
        "float32": lambda part: part.astype(np.float32),
        "float16": lambda part: np.clip(part, -6e4, 6e4).astype(np.float16),
        "tensor": lambda part: torch.from_numpy(part.copy()),
        "bfloat16": lambda part: torch.from_numpy(part.copy()).to(torch.bfloat16),
        "device": lambda part: on_device(torch.from_numpy(part.copy())),
        "layers": lambda part: [[row[:3].copy(), row[3:].copy()] for row in part],
    }
    rules = [
        mt.Krum(2),
        mt.Comed(),
        mt.GeometricMedian(),
        mt.NNM(2) >> mt.TrimmedMean(2),
        mt.Bulyan(1),
        mt.Krum(2, p=3),
    ]
    for name, kind in kinds.items():
        ranks = Ranks(50, None)
        part = rows[:, ranks.start : ranks.stop]
        for rule in rules:
            given = kind(part)
            arrival = sharded(given, ranks)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = rule.aggregate(arrival, entropy=FixedKey(0)).update
            flat = np.concatenate([np.asarray(one) for one in answer]) if name == "layers" else answer
            found[name, repr(rule)] = torch.as_tensor(flat).to(torch.float64).numpy()
    few = Ranks(2, None)
    found["few"] = mt.Comed()(sharded(rows[:, few.start : few.stop].copy(), few))
    wide = rng.normal(size=(200, 9))  # n x n numbers that are summed on the first rank
    ranks = Ranks(9, None)
    found["wide"] = mt.Krum(3, p=np.inf)(sharded(wide[:, ranks.start : ranks.stop].copy(), ranks))
    found["wide 2"] = mt.Krum(3)(sharded(wide[:, ranks.start : ranks.stop].copy(), ranks))
    return found


def too_many_faults(rank, count):
    """What every rank raises when two rows are broken in different slices and f is one."""
    rows = np.ones((6, 12))
    rows[1, 0], rows[4, 11] = np.nan, np.inf
    ranks = Ranks(12, None)
    try:
        mt.Krum(1)(sharded(rows[:, ranks.start : ranks.stop].copy(), ranks))
    except FaultError as error:
        assert dist.get_rank() == rank
        return error.rows
    return None
