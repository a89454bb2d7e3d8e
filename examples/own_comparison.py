"""Your own rule, attack, network and data, compared: a table, a page and a figure for a paper, in under 30 lines.

Run it with: python examples/own_comparison.py
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

import mixtailor as mt
from mixtailor.attacks import Attack, Tailored


def near_median(updates):  # a rule: from the (n, d) tensor of all updates to one
    distances = (updates - updates.median(dim=0).values).norm(dim=1)
    return updates[distances.argsort()[: len(updates) - 2]].mean(dim=0)


@dataclass(frozen=True)
class Opposite(Attack):  # an attack: it describes the f updates of the Byzantine workers
    size: float = 3.0
    needs = "the honest updates"

    def points(self, scene):
        return [scene.honest.combine(np.full(scene.honest.n, -self.size / scene.honest.n))] * scene.f


def network():  # called once for each seed, so that the same seed has the same initial weights
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


labels = torch.arange(900) % 3
inputs = torch.randn(900, 8, generator=torch.Generator().manual_seed(0)) + 2.0 * torch.eye(8)[labels]
rules = [near_median, mt.recommended(f=2, n=12), mt.Krum(f=2), mt.Mean()]
attacks = [Opposite(), Tailored(epsilon=0.1), None]
found = mt.compare(rules, attacks, data=(inputs, labels), model=network, seeds=2, rounds=60, name="mine")
print(found)
print("page:", found.report())
print("figures:", *found.figures(["pdf"], style="paper"))
print("tables:", *found.tables())
