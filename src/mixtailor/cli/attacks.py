"""``mixtailor attacks``."""

from mixtailor.cli._output import Json, console, say, show_json, table

EXAMPLE = "mixtailor attacks --json"
_WIDE = 116  # columns of a terminal from which references fit


def command(as_json: Json = False) -> None:
    """List every attack, and what the attacker has to know for it."""
    from importlib.metadata import entry_points

    from mixtailor.attacks.registry import GROUP
    from mixtailor.cli import _catalogue  # numba loads here, and not for help

    known = _catalogue.attacks()
    others = {entry.name: entry.value for entry in entry_points(group=GROUP)}
    if as_json:
        show_json({"attacks": [entry.plain() for entry in known], "registered": others})
        return
    screen = console()
    wide = screen.width >= _WIDE
    columns = ["attack", "knows", "what it sends", *(["reference"] if wide else [])]
    rows = [[e.name, e.needs, e.doc.summary, *([e.reference] if wide else [])] for e in known]
    screen.print(table(columns, rows))
    for name, where in others.items():
        say(f"{name}: registered by {where}")
    say("An attack of yours is named by its file, as in mine.py:Shift. See docs/own-attack.md.")
