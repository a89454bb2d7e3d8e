"""The picture of a JSON file: ours against the fastest peer, and the mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks._findings import from_json
from benchmarks._page import times

__all__ = ["draw"]

# Readable on white and on black: no background, and greys and colours half-way between.
_INK, _PEER, _OWN = "#7f8792", "#9aa3ad", "#e07a2f"
_SHOWN = ("Comed", "TrimmedMean", "Meamed", "Krum, p = 2", "MultiKrum, p = 2", "GeometricMedian, p = 2", "Bulyan")


def draw(report: Mapping[str, Any], path: Path) -> None:
    """Write an SVG of bars on a logarithmic scale."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    findings = {each.what: each for each in from_json(report["findings"]) if each.claim == "against_peers"}
    shown = [findings[name] for name in _SHOWN if name in findings][::-1]
    if not shown:
        raise ValueError("The picture needs the peers' times, and this report has none. Run `make bench-peers` first.")
    mean = report["means"][report["yardstick"]]
    # Text stays text, and equal numbers give an equal file.
    with plt.rc_context({"svg.fonttype": "none", "svg.hashsalt": "mixtailor", "font.size": 11}):
        figure, axes = plt.subplots(figsize=(8, 0.62 * len(shown) + 1.1))
        for place, each in enumerate(shown):
            peer, own = each.facts["peer_milliseconds"], each.facts["milliseconds"]
            axes.barh(place + 0.2, peer, 0.36, color=_PEER)
            axes.barh(place - 0.2, own, 0.36, color=_OWN)
            axes.text(peer * 1.08, place + 0.2, f"{peer:.0f} ms, {each.facts['peer']}", color=_INK, va="center")
            label = f"{own:.1f} ms, {times(each.value)} times faster"
            axes.text(own * 1.08, place - 0.2, label, color=_OWN, va="center", fontweight="bold")
        axes.axvline(mean, color=_INK, linestyle=":", linewidth=1.2)
        axes.text(mean, len(shown) - 0.35, f"the mean, {mean:.1f} ms", color=_INK, ha="center", fontsize=9.5)
        axes.set_yticks(range(len(shown)), [each.what for each in shown], color=_INK)
        axes.set_xscale("log")
        axes.set_xlim(mean * 0.55, max(each.facts["peer_milliseconds"] for each in shown) * 12)
        axes.set_xlabel(
            f"milliseconds, {shown[0].size} rows and float32 coordinates, {report['machine']['cores']} cores",
            color=_INK,
        )
        axes.tick_params(colors=_INK, which="both")
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(_INK)
        figure.savefig(path, transparent=True, bbox_inches="tight", metadata={"Date": None})
        plt.close(figure)
