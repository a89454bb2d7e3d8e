"""The README's picture, drawn from real answers: twelve rows, two of them lies, and what rules make of them.

Rows have 1000 coordinates, because it takes many for a quiet lie to work: honest rows are then far from each other and
nearer to what lies between them. Shown are, of each row and answer, the part along the honest mean (to the right) and
the length of the rest (upwards). The seed was fixed before looking; `tests/test_docs.py` holds others to the same.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mixtailor import Bulyan, Comed, GeometricMedian, Krum, Mean, Rule, TrimmedMean
from mixtailor.attacks import Tailored

WIDTH, HEIGHT, MARGIN = 400, 330, 26
F, D = 2, 1000
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 }
.frame { fill: none; stroke: #d0d7de }
.axis { stroke: #d0d7de; stroke-dasharray: 3 3 }
.honest { fill: #8c959f }
.lie { stroke: #cf222e; stroke-width: 2.5 }
.truth { fill: none; stroke: #1a7f37; stroke-width: 2 }
.mean { fill: #cf222e }
.rule { fill: #0969da }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .frame, .axis { stroke: #3d444d } .honest { fill: #6e7681 } .rule { fill: #58a6ff }
  .truth { stroke: #3fb950 } .mean { fill: #ff7b72 } .lie { stroke: #ff7b72 }
}
"""
RULES: dict[str, Rule] = {
    "mean": Mean(),
    "krum": Krum(F),
    "comed": Comed(),
    "trimmed mean": TrimmedMean(F),
    "geometric median": GeometricMedian(),
    "bulyan": Bulyan(F),
}


@dataclass(frozen=True)
class Scene:
    """Rows of which the last two lie, and what each rule answers."""

    title: str
    rows: np.ndarray
    answers: dict[str, np.ndarray]

    @property
    def truth(self) -> np.ndarray:
        """The mean of the honest rows."""
        return self.rows[:-F].mean(axis=0)


def scene(title: str, epsilon: float, seed: int = 0) -> Scene:
    """Ten honest rows, a common vector of length 1 and noise of length about 3, and two rows against their mean."""
    noise = np.random.default_rng(seed).normal(size=(10, D)) * 3 / np.sqrt(D)
    honest = noise + np.ones(D) / np.sqrt(D)
    rows = np.concatenate([honest, Tailored(epsilon)(honest, F)])
    return Scene(title, rows, {name: rule(rows) for name, rule in RULES.items()})


def projected(points: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The part along the honest mean, in units of its length, and the length of the rest in the same units."""
    length = np.linalg.norm(truth)
    along = points @ truth / length**2
    rest = np.linalg.norm(points - np.outer(along, truth), axis=1) / length
    return np.stack([along, rest], axis=1)


def panel(shown: Scene, left: int) -> list[str]:
    """One scene as SVG."""
    rows = projected(shown.rows, shown.truth)
    low, high = min(float(rows[:, 0].min()), -0.35), max(float(rows[:, 0].max()), 1.0)
    across, up = (WIDTH - 3 * MARGIN) / (high - low), (HEIGHT - 110) / float(rows[:, 1].max())

    def at(point: np.ndarray) -> tuple[float, float]:
        return left + 1.5 * MARGIN + (float(point[0]) - low) * across, HEIGHT - 46 - float(point[1]) * up

    x0, y0 = at(np.zeros(2))
    parts = [
        f'<rect class="frame" x="{left + 4}" y="4" width="{WIDTH - 8}" height="{HEIGHT - 8}" rx="8"/>',
        f'<text class="title" x="{left + 18}" y="28">{shown.title}</text>',
        f'<line class="axis" x1="{left + 12}" x2="{left + WIDTH - 12}" y1="{y0:.1f}" y2="{y0:.1f}"/>',
        f'<line class="axis" x1="{x0:.1f}" x2="{x0:.1f}" y1="40" y2="{HEIGHT - 32}"/>',
        f'<text x="{x0 + 6:.1f}" y="{HEIGHT - 16}">forward →</text>',
        f'<text x="{x0 - 6:.1f}" y="{HEIGHT - 16}" text-anchor="end">← backward</text>',
    ]
    for row in rows[:-F]:
        parts.append('<circle class="honest" cx="{:.1f}" cy="{:.1f}" r="4"/>'.format(*at(row)))
    x, y = at(rows[-1])
    parts.append(f'<path class="lie" d="M{x - 8:.1f} {y - 8:.1f}l16 16m0 -16l-16 16"/>')
    parts.append('<circle class="truth" cx="{:.1f}" cy="{:.1f}" r="10"/>'.format(*at(np.array([1.0, 0.0]))))
    parts += answers(shown, at)
    return parts


def answers(shown: Scene, at: Callable[[np.ndarray], tuple[float, float]]) -> list[str]:
    """The answers, those that go the wrong way by name."""
    parts = []
    for name, answer in shown.answers.items():
        place = projected(answer[None], shown.truth)[0]
        x, y = at(place)
        kind = "mean" if name == "mean" else "rule"
        parts.append(f'<rect class="{kind}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>')
        if place[0] < 0:
            parts.append(f'<text x="{x - 8:.1f}" y="{y - 14:.1f}">{name}</text>')
    return parts


def legend() -> list[str]:
    """What the signs mean."""
    y = HEIGHT + 20
    signs = [
        ('<circle class="honest" cx="{x}" cy="{y}" r="4"/>', "an honest row"),
        ('<path class="lie" d="M{x} {y}m-5 -5l10 10m0 -10l-10 10"/>', "two lies, at one place"),
        ('<circle class="truth" cx="{x}" cy="{y}" r="8"/>', "the honest mean"),
        (
            '<rect class="mean" x="{x}" y="{y}" width="8" height="8" transform="translate(-4 -4)"/>',
            "answer of the mean",
        ),
        ('<rect class="rule" x="{x}" y="{y}" width="8" height="8" transform="translate(-4 -4)"/>', "answers of rules"),
    ]
    parts = []
    for place, (sign, text) in enumerate(signs):
        x = 30 + place * 156
        parts += [sign.format(x=x, y=y), f'<text x="{x + 14}" y="{y + 4}">{text}</text>']
    return parts


def svg() -> str:
    """The picture."""
    scenes = [scene("Loud lies: ε = 10", 10.0), scene("Quiet lies: ε = 0.1", 0.1)]
    body = [line for place, shown in enumerate(scenes) for line in panel(shown, place * WIDTH)]
    size = f'width="{2 * WIDTH}" height="{HEIGHT + 36}" viewBox="0 0 {2 * WIDTH} {HEIGHT + 36}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{STYLE}</style>'
    return "\n".join([head, *body, *legend(), "</svg>"]) + "\n"
