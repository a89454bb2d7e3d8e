"""A whole round of training under attack costs little more than one pass over the same examples as a single batch.

``python -m benchmarks.round --quick``
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import mixtailor as mt
from benchmarks._findings import Finding
from benchmarks._harness import interleave, local, ratio
from benchmarks._plans import Plan, full, quick

__all__ = ["findings"]

CLAIM = "round"
LIMIT = 1.3
TOGETHER = 16  # rounds in one measurement, since rules that are drawn differ in cost
N, F, BATCH = 12, 2, 50
DENSITY = 0.19  # the share of MNIST's pixels that are not zero
# The two readings of the paper's network on MNIST.
NETWORKS: tuple[tuple[str, str, Mapping[str, float]], ...] = (
    ("the paper's CNN", "cnn", {}),
    ("the published perceptron", "mlp", {"hidden": 100}),
)


def findings(plan: Plan, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """Gradients of 10 honest workers, the attack, the paper's pool and the step, over forward and backward of all."""
    try:
        import torch  # noqa: F401  # only whether it is there
    except ImportError:
        return []
    return [_finding(plan, say, *network) for network in NETWORKS]


def _finding(plan: Plan, say: Callable[[str], None], name: str, model: str, options: Mapping[str, float]) -> Finding:
    import torch

    say(f"a round of training, {name}")
    together = 1 if plan.rounds == 1 else TOGETHER
    simulation, one_batch = _round(model, options), _one_batch(model, options)
    if plan.rounds > 1:
        _warm(simulation.layout.d)

    def rounds() -> None:
        for _ in range(together):
            simulation._one_round()
            simulation._round += 1

    def batches() -> None:
        for _ in range(together):
            one_batch()

    contenders = [local("round", rounds), local("batch", batches)]
    timings = interleave(contenders, rounds=plan.rounds, spend=8 * plan.spend, say=say)
    value, low, high = ratio(timings["round"], timings["batch"])
    each = {key: 1e3 * timing.median / together for key, timing in timings.items()}
    facts = {
        "milliseconds": each["round"],
        "batch_milliseconds": each["batch"],
        "torch_threads": torch.get_num_threads(),
    }
    return Finding(
        CLAIM,
        f"a round of {N - F} honest workers, {name}, over one pass of their examples as one batch",
        f"({N}, {simulation.layout.d:,})",
        value,
        "x one batch",
        LIMIT,
        low=low,
        high=high,
        note=f"{each['round']:.1f} and {each['batch']:.1f} ms",
        facts=facts,
    )


def _images() -> Any:
    """Bytes in the shape of MNIST's, of which as many are zero: a perceptron's first layer skips them."""
    import torch

    from mixtailor.simulation import Dataset

    rng = np.random.default_rng(0)
    pixels = rng.integers(1, 256, (6_000, 1, 28, 28), dtype=np.uint8) * (rng.random((6_000, 1, 28, 28)) < DENSITY)
    inputs = torch.from_numpy(pixels)
    labels = torch.from_numpy(rng.integers(0, 10, 6_000))
    return Dataset("images", 10, inputs, labels, inputs[:10], labels[:10], unit=255.0, mean=(0.13,), deviation=(0.31,))


def _round(model: str, options: Mapping[str, float]) -> Any:
    from mixtailor.attacks import Tailored
    from mixtailor.simulation import Settings, Simulation, build

    settings = Settings(n=N, byzantine=F, batch=BATCH, rounds=1 << 30, evaluate_every=1 << 30)
    data = _images()
    network = build(model, data, seed=0, **options)
    return Simulation(data, network, mt.MixTailor(mt.paper_pool(F)), Tailored(epsilon=0.1), settings=settings)


def _one_batch(model: str, options: Mapping[str, float]) -> Callable[[], None]:
    import torch

    from mixtailor.simulation import build

    data = _images()
    network = build(model, data, seed=0, **options).train()
    inputs, labels = data.train(np.arange((N - F) * BATCH))

    def call() -> None:
        network.zero_grad(set_to_none=True)
        torch.nn.functional.cross_entropy(network(inputs), labels).backward()  # type: ignore[no-untyped-call]  # torch's

    return call


def _warm(d: int) -> None:
    """Each rule once, so that none compiles while it is measured."""
    rows = np.random.default_rng(0).normal(size=(N, d)).astype(np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rule in dict.fromkeys(mt.paper_pool(F)):
            rule(rows)


if __name__ == "__main__":
    for finding in findings(quick() if "--quick" in sys.argv else full()):
        print(
            f"{finding.what}: {finding.value:.2f} ({finding.low:.2f} - {finding.high:.2f}), at most {finding.limit:g}"
        )
        print(finding.note)
