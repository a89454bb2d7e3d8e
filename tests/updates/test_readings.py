"""How often a rule reads all updates, and how often the ranks of a group meet for it."""

import dataclasses

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.storage import Shard
from mixtailor.storage.group import Group
from mixtailor.testing.laws import FixedKey

# Counted before storage, intake and updates were three packages, and the same since: readings and collectives of a call
# on usual updates, and on updates of which one is far away.
COUNTS = [
    (mt.Mean(), (1, 1), (1, 1)),
    (mt.Comed(), (1, 1), (1, 1)),
    (mt.TrimmedMean(2), (1, 1), (1, 1)),
    (mt.Krum(2), (1, 1), (1, 1)),
    (mt.Krum(2, p=3), (1, 1), (1, 1)),
    (mt.MultiKrum(2), (2, 2), (2, 2)),
    (mt.Medoid(), (1, 1), (2, 2)),
    (mt.GeometricMedian(), (2, 2), (3, 3)),
    (mt.GeometricMedian(p=3), (7, 6), (7, 6)),
    (mt.Bulyan(2), (2, 2), (2, 2)),
    (mt.CAF(2), (2, 2), (3, 3)),
    (mt.SMEA(2), (2, 2), (3, 3)),
    (mt.MDA(2), (2, 2), (2, 2)),
    (mt.DnC(2), (2, 2), (3, 3)),
    (mt.CGE(2), (2, 2), (2, 2)),
    (mt.CenteredClipping(tau=1.0), (2, 2), (2, 2)),
    (mt.FLTrust(), (3, 3), (3, 3)),
    (mt.MoNNA(2), (2, 2), (2, 2)),
    (mt.NNM(2) >> mt.Krum(2), (2, 2), (2, 2)),
    (mt.NNM(2) >> mt.Comed(), (2, 2), (2, 2)),
    (mt.NNM(2) >> mt.TrimmedMean(2), (2, 2), (2, 2)),
    (mt.NNM(2) >> mt.GeometricMedian(), (2, 2), (3, 3)),
    (mt.Bucketing(size=2) >> mt.Krum(2), (2, 2), (2, 2)),
    (mt.Clipping(5.0) >> mt.Comed(), (2, 2), (2, 2)),
    (mt.ARC(2) >> mt.TrimmedMean(2), (2, 2), (2, 2)),
]


class Counting(Group):
    """Two processes, the second of which holds no coordinate: what the first has is the sum."""

    count, same_bits = 2, True

    def __init__(self) -> None:
        self.met = 0

    def sum(self, values, doubt):
        self.met += 1
        return values, doubt

    def lengths(self, own, powers, doubt):
        return self.sum(own, doubt)

    def agreed(self, values):
        self.met += 1
        return values

    def whole(self, matrix):
        self.met += 1
        return matrix


def counted(rule: mt.Rule, rows: np.ndarray) -> tuple[int, int]:
    arrival, group, read = receive(rows), Counting(), []
    storage = arrival.storage
    block = storage.block

    def noted(start: int, stop: int):
        read.append(stop - start)
        return block(start, stop)

    storage.block = noted
    sent = dataclasses.replace(arrival, storage=Shard(storage, 0, rows.shape[1]), group=group)
    rule(sent, reference=rows[:9].mean(axis=0), entropy=FixedKey(3))
    readings, rest = divmod(sum(read), rows.shape[1])
    assert rest == 0
    return readings, group.met


@pytest.mark.parametrize(("rule", "usual", "far"), COUNTS, ids=repr)
def test_no_rule_needs_more_than_it_did(rule: mt.Rule, usual: tuple[int, int], far: tuple[int, int]) -> None:
    rows = np.random.default_rng(0).normal(size=(13, 3000)).astype(np.float32)
    for most, sent in ((usual, rows), (far, np.insert(rows[1:], 4, 1e30, axis=0))):
        found = counted(rule, sent)
        assert found[0] <= most[0] and found[1] <= most[1], found
