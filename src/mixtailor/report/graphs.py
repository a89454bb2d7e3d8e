"""The graph of workers without a server, with who is Byzantine and who is lost, as a small SVG."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mixtailor.experiments.results import Results

__all__ = ["graph_svg", "graphs_of"]

_SIZE, _MOST = 320, 200  # pixels, and workers that a picture has room for


def graph_svg(drawing: dict[str, Any]) -> str:
    """A circle of workers: triangles are Byzantine, dark circles hold, crossed ones are lost.

    Examples
    --------
    >>> drawing = {"edges": [[0, 1]], "workers": [0.9, None], "byzantine": [1], "lost": []}
    >>> graph_svg(drawing).count("<line"), "0: 90.0 %" in graph_svg(drawing)
    (1, True)
    """
    accuracies = [None if value is None else float(value) for value in drawing["workers"]]
    n, middle, reach = len(accuracies), _SIZE / 2, _SIZE / 2 - 28
    byzantine, lost = {int(worker) for worker in drawing["byzantine"]}, {int(worker) for worker in drawing["lost"]}
    places = [
        (middle + reach * math.sin(2 * math.pi * k / n), middle - reach * math.cos(2 * math.pi * k / n))
        for k in range(n)
    ]
    parts = []
    for first, second in drawing["edges"]:
        (ax, ay), (bx, by) = places[int(first)], places[int(second)]
        parts.append(f'<line x1="{ax:.1f}" y1="{ay:.1f}" x2="{bx:.1f}" y2="{by:.1f}" stroke="#8886" />')
    for worker, (x, y) in enumerate(places):
        value = accuracies[worker]
        name = f"{worker}: Byzantine" if value is None else f"{worker}: {100 * value:.1f} %"
        if worker in byzantine:
            shape = f'<path d="M{x:.1f} {y - 11:.1f} l10 18 h-20 z" fill="#c2410c" />'
        else:
            fill = "#9ca3af" if worker in lost else "#1d4ed8"
            shape = f'<circle cx="{x:.1f}" cy="{y:.1f}" r="10" fill="{fill}" />'
            if worker in lost:
                shape += f'<path d="M{x - 6:.1f} {y - 6:.1f} l12 12 m0 -12 l-12 12" stroke="#fff" stroke-width="2" />'
        parts.append(f"<g><title>{name}</title>{shape}</g>")
        tx, ty = middle + (x - middle) * 1.16, middle + (y - middle) * 1.16 + 4
        parts.append(
            f'<text x="{tx:.1f}" y="{ty:.1f}" text-anchor="middle" font-size="11" fill="currentColor">{worker}</text>'
        )
    label = f"{n} workers, {len(byzantine)} Byzantine, {len(lost)} lost"
    return (
        f'<svg viewBox="0 0 {_SIZE} {_SIZE}" width="{_SIZE}" height="{_SIZE}" role="img" aria-label="{label}">'
        + "".join(parts)
        + "</svg>"
    )


def graphs_of(results: Results) -> list[dict[str, Any]]:
    """The graphs of an experiment's runs that have one, the first seed of each: title, picture and a sentence."""
    found: dict[str, dict[str, Any]] = {}
    for run in results.runs:
        title = ", ".join(part for part in (run.panel, run.rule, run.attack) if part)
        drawing = run.records[-1].get("graph") if run.records else None
        if title in found or not isinstance(drawing, dict):
            continue
        try:
            workers = run.records[-1]["workers"]
            if len(workers) > _MOST:
                continue
            picture, condition = graph_svg({**drawing, "workers": workers}), drawing["condition"]
            text = (
                f"connectivity {float(condition['connectivity']):.3g} where more than "
                f"{2 * int(condition['byzantine_neighbours'])} is needed; {len(drawing['lost'])} of "
                f"{sum(value is not None for value in workers)} honest workers are lost"
            )
        except (ValueError, KeyError, TypeError, IndexError):  # a record that was tampered with
            continue
        found[title] = {"title": title, "svg": picture, "text": text}
    return list(found.values())
