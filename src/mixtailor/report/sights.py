"""One sentence for each section of the page: what to see in it."""

from __future__ import annotations

from statistics import fmean
from typing import Any

__all__ = ["sights"]


def sights(shown: dict[str, Any]) -> dict[str, Any]:
    """The sentences, from what the page shows; of groups, one for each."""
    return {
        "groups": [_worst(group, shown["references"]) for group in shown["groups"]],
        "charts": _charts(shown["groups"], shown["references"]),
        "draws": _drawn(shown["draws"]),
        "chosen": _chosen(shown["charts"]),
        "accounts": _accounts(shown["charts"]),
        "times": _times(shown["times"]),
    }


def _worst(group: dict[str, Any], references: list[str]) -> str:
    cases = [case for case in group["worst"] if case["rule"] not in references]
    if len(cases) < 2:
        return "The column “worst” is the rule's lowest accuracy."
    best, last = cases[0], cases[-1]
    return (
        f"Look at the column “worst”: {best['rule']} keeps {best['accuracy']:.1f} % under every attack, while "
        f"{last['rule']} falls to {last['accuracy']:.1f} % under {last['attack']}. The redder a cell, the worse."
    )


def _charts(groups: list[dict[str, Any]], references: list[str]) -> str:
    """The cell that lost most against the best rule under the same attack."""
    found = []
    for group in groups:
        for column, attack in enumerate(group["attacks"]):
            cells = [(row[column], rule) for row, rule in zip(group["cells"], group["rules"], strict=True)]
            known = [cell for cell in cells if cell[0] is not None and cell[1] not in references]
            if len(known) > 1:
                (low, loser), (high, winner) = min(known), max(known)
                found.append((high - low, loser, low, winner, high, attack))
    if not found:
        return "A line that rises shows that the model learns."
    _, loser, low, winner, high, attack = max(found)
    return (
        f"A line that stays low was stopped by the attack. The widest gap is under {attack}: {loser} ends at {low:.1f} "
        f"%, {winner} at {high:.1f} %."
    )


def _drawn(draws: list[dict[str, Any]]) -> str:
    if not draws:
        return ""
    item = draws[0]
    whole = sum(item["counts"].values())
    name, count = next(iter(item["counts"].items()))
    return (
        f"The attacker cannot know which of these comes next: {item['rule']} used {name} most often, in "
        f"{100 * count / whole:.0f} % of the rounds."
    )


def _chosen(charts: list[dict[str, Any]]) -> str:
    found = []
    for chart in charts:
        if not chart["chosen"] or not chart["chosen"]["fixed"] or not any(chart["chosen"]["byzantine"]):
            continue
        for row in chart["chosen"]["rows"]:
            byzantine = chart["chosen"]["byzantine"]
            share = sum(part for part, lies in zip(row["shares"], byzantine, strict=True) if lies)
            found.append((share, row["rule"], chart["short"], sum(byzantine) / len(byzantine)))
    if not found:
        return ""
    share, rule, title, chance = max(found, key=lambda item: item[0] - item[3])
    if share <= chance:
        return "No rule was fooled: none chose the marked workers more often than a blind choice would."
    return (
        f"A rule that is fooled chooses the marked workers. Most fooled: {rule} ({title}), {100 * share:.0f} % of its "
        f"choices; choosing blindly would give {100 * chance:.0f} %."
    )


def _accounts(charts: list[dict[str, Any]]) -> str:
    for chart in charts:
        for account in chart["accounts"]:
            known = [item for item in account["workers"] if item["distance"] is not None]
            sides = [[item["distance"] for item in known if item["lied"] is lied] for lied in (True, False)]
            if all(sides):
                byzantine, honest = map(fmean, sides)
                hidden = min(sides[0]) <= max(sides[1])  # by its distance, a Byzantine worker could be an honest one
                lead = "The attack hides among the honest updates" if hidden else "The attack stands out"
                return (
                    f"{lead}: with {account['rule']} ({chart['short']}), Byzantine updates were at {byzantine:.2g} on "
                    f"average and honest ones at {honest:.2g}."
                )
    return ""


def _times(times: list[dict[str, Any]]) -> str:
    if len(times) < 2:
        return ""
    first, last = times[0], times[-1]
    ratio = last["microseconds"] / first["microseconds"] if first["microseconds"] else 0.0
    return f"{first['rule']} is the fastest; {last['rule']} takes {ratio:.0f} times as long." if ratio else ""
