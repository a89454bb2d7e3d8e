"""Training that does not wait, on digits: ``python -m benchmarks.asynchronous [--seeds 3] [--steps 200]``.

Two tables. Synchronous against asynchronous: 20 clients, four of them Byzantine, a fifth of them ten times as slow.
Sampled: 12 of 100 clients in each step, 15 of the 100 Byzantine. Accuracy in percent after the same number of steps,
the mean over the seeds with the lowest in brackets, and the time on the simulated clock.
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import mixtailor as mt
from mixtailor.attacks import ALIE, Schedule, SignFlip, Tailored
from mixtailor.simulation import Asynchronous, Clock, Settings

# Clients that send the honest mean harm nobody; but they are always fresh, as all Byzantine ones here, so that the
# model moves on faster and the updates of the others are older.
HARMLESS = "harmless but fast"
ATTACKS: dict[str, Any] = {
    "none": None,
    HARMLESS: Schedule(SignFlip(), start=1 << 30),  # before that, the honest mean
    "tailored 10": Tailored(10.0),
    "ALIE 1.5": ALIE(1.5),
    "sign flip": SignFlip(),
}


def _settings(seed: int, steps: int, n: int, byzantine: int, rate: float, momentum: float = 0.9) -> Settings:
    return Settings(
        n=n,
        byzantine=byzantine,
        rounds=steps,
        batch=16,
        learning_rate=rate,
        momentum=momentum,
        seed=seed,
        evaluate_every=max(1, steps // 10),
        participation=1.0,
    )


def waiting(seed: int, steps: int, attack: Any, rate: float, _byzantine: int) -> dict[str, tuple[float, float]]:
    """Accuracy and time of each way to wait."""
    n, f = 20, 4
    clock, stale = Clock(stragglers=0.2), Clock(stragglers=0.2, byzantine="stale")
    ways: dict[str, Callable[[], Asynchronous]] = {}

    settings, plain = _settings(seed, steps, n, f, rate), _settings(seed, steps, n, f, 4 * rate, 0.0)

    def way(rule: mt.Rule, when: Any, clock: Clock, settings: Settings = settings, **more: Any) -> Any:
        return lambda: Asynchronous("digits", "mlp", rule, attack, settings=settings, when=when, clock=clock, **more)

    gm = mt.NNM(f) >> mt.GeometricMedian()
    ways["mean, Fresh(10)"] = way(mt.Mean(), mt.Fresh(10), clock)
    ways["mean, Kept(10)"] = way(mt.Mean(), mt.Kept(10), clock)
    ways["NNM >> GM, synchronous"] = way(gm, mt.Fresh(n), clock)
    ways["NNM >> GM, Fresh(10)"] = way(gm, mt.Fresh(10), clock)
    ways["NNM >> GM, Fresh(10), stale"] = way(gm, mt.Fresh(10), stale, oldest=20)
    ways["NNM >> GM, Kept(10)"] = way(gm, mt.Kept(10), clock)
    ways["NNM >> GM, Kept(10), weights"] = way(gm, mt.Kept(10), clock, staleness=0.5)
    ways["recommended, Fresh(10)"] = way(mt.recommended(f), mt.Fresh(10), clock)
    ways["recommended, Kept(10)"] = way(mt.recommended(f), mt.Kept(10), clock)
    # Momentum at the server and updates that are twelve versions old make training oscillate, whatever the rule.
    ways["NNM >> GM, Kept(10), no momentum"] = way(gm, mt.Kept(10), clock, plain)
    ways["recommended, Kept(10), no momentum"] = way(mt.recommended(f), mt.Kept(10), clock, plain)
    found = {}
    for name, make in ways.items():
        run = make().run()
        found[name] = (100 * run.accuracy(), run.records[-1]["time"])
    return found


def sampled(seed: int, steps: int, attack: Any, rate: float, byzantine: int) -> dict[str, tuple[float, float]]:
    """Accuracy and time where 12 of 100 clients are sampled."""
    found = {}
    ways: Sequence[tuple[str, mt.Rule, Any]] = [
        ("mean of the sample", mt.Mean(), mt.Fresh(1)),
        ("NNM >> GM of the sample, f = 5", mt.NNM(5) >> mt.GeometricMedian(), mt.Fresh(1)),
        ("recommended of the sample, f = 5", mt.recommended(5), mt.Fresh(1)),
        ("guarded, of the sample, f = 5", mt.Guarded(mt.recommended(5)), mt.Fresh(1)),
        (f"NNM >> GM of all kept, f = {byzantine}", mt.NNM(byzantine) >> mt.GeometricMedian(), mt.Kept(1)),
        (f"recommended of all kept, f = {byzantine}", mt.recommended(byzantine), mt.Kept(1)),
    ]
    settings = _settings(seed, steps, 100, byzantine, rate)
    for name, rule, when in ways:
        run = Asynchronous("digits", "mlp", rule, attack, settings=settings, when=when, sample=12).run()
        found[name] = (100 * run.accuracy(), run.records[-1]["time"])
    # Momentum for each worker in the place of the server's. The server's makes steps ten times as long.
    plain = _settings(seed, steps, 100, byzantine, 4 * rate, 0.0)
    means = {"NNM >> GM": mt.NNM(byzantine) >> mt.GeometricMedian(), "recommended": mt.recommended(byzantine)}
    for name, rule in means.items():
        run = Asynchronous(
            "digits", "mlp", rule, attack, settings=plain, when=mt.Kept(1), sample=12, momentum=0.5
        ).run()
        found[f"{name} of all running means, f = {byzantine}"] = (100 * run.accuracy(), run.records[-1]["time"])
    return found


def _cell(accuracies: list[float]) -> str:
    """Their mean, and the lowest where there are several seeds."""
    mean = f"{np.mean(accuracies):.1f}"
    return mean if len(accuracies) == 1 else f"{mean} ({min(accuracies):.1f})"


def _table(title: str, measure: Callable[..., dict[str, tuple[float, float]]], args: Any) -> None:
    cells: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for label in args.attacks.split(","):
        for seed in range(args.first_seed, args.first_seed + args.seeds):
            for name, value in measure(seed, args.steps, ATTACKS[label], args.rate, args.byzantine).items():
                cells.setdefault(name, {}).setdefault(label, []).append(value)
    labels = args.attacks.split(",")
    print(f"\n{title}\n\n| | {' | '.join(labels)} | time |\n|---|{'---:|' * (len(labels) + 1)}")
    for name, row in cells.items():
        shown = [_cell([accuracy for accuracy, _ in row[label]]) for label in labels]
        time = np.mean([spent for values in row.values() for _, spent in values])
        print(f"| {name} | {' | '.join(shown)} | {time:.0f} |", flush=True)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate")
    parser.add_argument("--byzantine", type=int, default=15, help="of the 100 clients that are sampled")
    parser.add_argument("--attacks", default=",".join(ATTACKS))
    parser.add_argument("--table", choices=["waiting", "sampled", "both"], default="both")
    args = parser.parse_args()
    if args.table != "sampled":
        _table("20 clients, 4 Byzantine, a fifth of the others ten times as slow", waiting, args)
    if args.table != "waiting":
        args.attacks = ",".join(label for label in args.attacks.split(",") if label != HARMLESS)  # all wait there
        _table(f"12 of 100 clients sampled, {args.byzantine} of the 100 Byzantine", sampled, args)


if __name__ == "__main__":
    main()
