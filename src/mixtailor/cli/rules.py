"""``mixtailor rules``."""

from mixtailor.cli._output import Json, console, say, show_json, table

EXAMPLE = "mixtailor rules --json"
_WIDE = 116  # columns of a terminal from which cost and reference fit


def command(as_json: Json = False) -> None:
    """List every rule and pre-aggregation: what n it needs, what it tolerates, its robustness coefficient."""
    from importlib.metadata import entry_points

    from mixtailor.cli import _catalogue  # numba loads here, and not for help
    from mixtailor.cli._catalogue import NONE_PUBLISHED
    from mixtailor.mixing.registry import GROUP

    known, fronts = _catalogue.rules(), _catalogue.preaggregations()
    others = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    if as_json:
        show_json(
            {
                "rules": [entry.plain() for entry in known],
                "preaggregations": [entry.plain() for entry in fronts],
                "registered": others,
            }
        )
        return
    screen = console()
    wide = screen.width >= _WIDE
    columns = ["rule", "needs", "tolerates", "kappa", *(["cost", "reference"] if wide else [])]
    rows = [
        [e.name, e.requirement, e.tolerates, e.coefficient or NONE_PUBLISHED, *([e.cost, e.reference] if wide else [])]
        for e in known
    ]
    screen.print(table(columns, rows))
    columns = ["in front (>>)", "leaves n, f", "kappa", *(["cost", "reference"] if wide else [])]
    rows = [
        [e.name, e.after, e.coefficient or NONE_PUBLISHED, *([e.cost, e.reference] if wide else [])] for e in fronts
    ]
    screen.print(table(columns, rows))
    for name, where in others.items():
        say(f"{name}: registered by {where}")
    say(
        "kappa: squared distance of the result to the honest mean, at most kappa times the honest variance (p = 2). "
        'Pools by name: default_pool (also "mixtailor"), paper_pool; with a memory of the workers: recommended.'
    )
