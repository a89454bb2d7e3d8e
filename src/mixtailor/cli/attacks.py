"""``mixtailor attacks``."""

from mixtailor.cli import _catalogue
from mixtailor.cli._output import Json, console, show_json, table

EXAMPLE = "mixtailor attacks --json"
_WIDE = 116  # columns of a terminal from which references fit


def command(as_json: Json = False) -> None:
    """Every attack, and what the attacker has to know for it."""
    known = _catalogue.attacks()
    if as_json:
        show_json({"attacks": [entry.plain() for entry in known]})
        return
    screen = console()
    wide = screen.width >= _WIDE
    columns = ["attack", "knows", "what it sends", *(["reference"] if wide else [])]
    rows = [[e.name, e.needs, e.doc.summary, *([e.reference] if wide else [])] for e in known]
    screen.print(table(columns, rows))
