"""The README's picture: training under three attacks, each of which breaks one fixed rule, and what MixTailor does.

``python docs/picture.py`` trains again and writes the numbers to ``docs/picture.json`` (minutes; it needs the extra
``train``). `svg` draws them, so ``make docs`` trains nothing. The seed and the attacks' sizes were
fixed before any of these runs was seen.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

NUMBERS = Path(__file__).resolve().parent / "picture.json"
N, F, ROUNDS, SEED = 12, 4, 100, 0
PANELS = {
    "tailored 10": "against the mean: ε = 10",
    "tailored 0.1": "against Krum: ε = 0.1",
    "drift 1.5": "against comed: drift",
}
CURVES = {"mean": "mean", "krum": "Krum", "comed": "comed", "mixtailor": "MixTailor"}
DRAWN = ("bound 2", "bound 3")  # of the two ViewFilters

WIDTH, LEFT, TOP, SIDE, HIGH, GAP = 780, 42, 66, 222, 170, 20
STRIP = TOP + HIGH + 26
HEIGHT = STRIP + 72
STYLE = """
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600 }
.small { font-size: 12px }
.paper { fill: #ffffff }
.grid { stroke: #d0d7de; stroke-dasharray: 2 4 }
.curve { fill: none; stroke-width: 2; stroke-linejoin: round }
.mean { stroke: #59636e; stroke-dasharray: 2 3 } text.mean { fill: #59636e; stroke: none }
.krum { stroke: #bc4c00; stroke-dasharray: 7 3 } text.krum { fill: #bc4c00; stroke: none }
.comed { stroke: #8250df; stroke-dasharray: 9 3 2 3 } text.comed { fill: #8250df; stroke: none }
.mixtailor { stroke: #0969da; stroke-width: 3 } text.mixtailor { fill: #0969da; stroke: none; font-weight: 600 }
.first { fill: #0969da } .second { fill: #9ec9ff }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc } .paper { fill: #0d1117 } .grid { stroke: #3d444d }
  .mean { stroke: #9198a1 } text.mean { fill: #9198a1 }
  .krum { stroke: #f0883e } text.krum { fill: #f0883e }
  .comed { stroke: #ab7df8 } text.comed { fill: #ab7df8 }
  .mixtailor { stroke: #58a6ff } text.mixtailor { fill: #58a6ff }
  .first { fill: #58a6ff } .second { fill: #1b4b91 }
}
"""


def measured() -> dict[str, dict[str, dict[str, list[Any]]]]:
    """Train every rule under every attack: accuracy after each round; for MixTailor, the place of the rule drawn."""
    from mixtailor import Comed, Krum, Mean, recommended
    from mixtailor.attacks import Drift, Tailored
    from mixtailor.simulation import Settings, Simulation, digits

    attacks = {"tailored 10": Tailored(epsilon=10.0), "tailored 0.1": Tailored(epsilon=0.1), "drift 1.5": Drift(z=1.5)}
    settings = Settings(
        n=N, byzantine=F, rounds=ROUNDS, batch=16, seed=SEED, learning_rate=0.05, momentum=0.9, evaluate_every=1
    )
    found: dict[str, dict[str, dict[str, list[Any]]]] = {}
    for panel, attack in attacks.items():
        for name, rule in {"mean": Mean(), "krum": Krum(F), "comed": Comed(), "mixtailor": recommended(F, N)}.items():
            records = Simulation(digits(), "mlp", rule, attack, settings=settings).run().records
            run: dict[str, list[Any]] = {"accuracy": [round(100 * record["accuracy"], 2) for record in records]}
            if name == "mixtailor":
                run["drawn"] = [int("bound" in next(iter(record["drawn"]))) for record in records[1:]]
            found.setdefault(panel, {})[name] = run
            print(panel, name, run["accuracy"][-1], flush=True)
    return found


def spread(places: Mapping[str, float], apart: float = 15.0) -> dict[str, float]:
    """Heights of labels that do not cover each other, in the order of the curves they belong to."""
    names = sorted(places, key=lambda name: places[name])
    heights = [places[name] for name in names]
    for _ in range(200):
        for low in range(len(heights) - 1):
            lacking = apart - (heights[low + 1] - heights[low])
            if lacking > 0:
                heights[low] -= lacking / 2
                heights[low + 1] += lacking / 2
    return dict(zip(names, heights, strict=True))


def curves(runs: Mapping[str, Mapping[str, Sequence[float]]], left: float) -> list[str]:
    """The accuracies of one panel, with the last of each beside its curve."""
    parts, ends = [], {}
    for name in CURVES:
        values = runs[name]["accuracy"]
        across = (SIDE - 34) / (len(values) - 1)
        points = [(left + place * across, TOP + HIGH * (1 - value / 100)) for place, value in enumerate(values)]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        parts.append(f'<polyline class="curve {name}" points="{line}"/>')
        ends[name] = points[-1][1]
    for name, y in spread(ends).items():
        last = sum(runs[name]["accuracy"][-5:]) / 5
        parts.append(f'<text class="small {name}" x="{left + SIDE - 29:.1f}" y="{y + 4:.1f}">{last:.0f} %</text>')
    return parts


def panel(title: str, runs: Mapping[str, Any], left: float) -> list[str]:
    """One attack: the curves, and below them the rule that MixTailor drew in each round."""
    parts = [f'<text class="title" x="{left}" y="{TOP - 12}">{title}</text>']
    for value in (0, 50, 100):
        y = TOP + HIGH * (1 - value / 100)
        parts.append(f'<line class="grid" x1="{left}" x2="{left + SIDE - 34}" y1="{y:.1f}" y2="{y:.1f}"/>')
    parts += curves(runs, left)
    wide = (SIDE - 34) / ROUNDS
    for place, drawn in enumerate(runs["mixtailor"]["drawn"]):
        kind = ("first", "second")[drawn]
        parts.append(
            f'<rect class="{kind}" x="{left + place * wide:.2f}" y="{STRIP}" width="{wide + 0.1:.2f}" height="16"/>'
        )
    return [
        *parts,
        f'<text class="small" x="{left + SIDE - 34}" y="{STRIP + 32}" text-anchor="end">round {ROUNDS}</text>',
    ]


def legend() -> list[str]:
    """What the lines and the strip mean."""
    parts, x = [], LEFT
    for name, text in CURVES.items():
        parts.append(f'<line class="curve {name}" x1="{x}" x2="{x + 34}" y1="16" y2="16"/>')
        parts.append(f'<text class="{name}" x="{x + 42}" y="20">{text}</text>')
        x += 104
    parts.append(f'<text x="{x + 32}" y="20">test accuracy; mean of the last 5 rounds</text>')
    y = STRIP + 56
    parts.append(f'<text x="{LEFT}" y="{y}">MixTailor drew, after the updates had arrived:</text>')
    for kind, text, at in (("first", DRAWN[0], LEFT + 312), ("second", DRAWN[1], LEFT + 420)):
        parts.append(f'<rect class="{kind}" x="{at}" y="{y - 12}" width="14" height="14"/>')
        parts.append(f'<text x="{at + 20}" y="{y}">{text}</text>')
    for value in (0, 50, 100):
        height = TOP + HIGH * (1 - value / 100) + 4
        parts.append(f'<text class="small" x="{LEFT - 8}" y="{height:.1f}" text-anchor="end">{value}</text>')
    return parts


def svg() -> str:
    """The picture."""
    runs = json.loads(NUMBERS.read_text(encoding="utf-8"))
    body = [f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>', *legend()]
    for place, (name, title) in enumerate(PANELS.items()):
        body += panel(title, runs[name], LEFT + place * (SIDE + GAP))
    label = "Accuracy of four rules under three attacks, and the rules that MixTailor drew"
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}"><style>{STYLE}</style>'
    return "\n".join([head, *body, "</svg>"]) + "\n"


if __name__ == "__main__":
    NUMBERS.write_text(json.dumps(measured()) + "\n", encoding="utf-8")
