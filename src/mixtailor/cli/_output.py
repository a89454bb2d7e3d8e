"""What commands print: tables for people, JSON for machines. Names from outside never reach a terminal as they are."""

import json
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from mixtailor._checks import shown

__all__ = ["Json", "after_writing", "complain", "console", "escape", "say", "show_json", "spread", "status", "table"]

Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]

_WHOLE = 14  # cells up to this length are numbers or short names, and never wrap


class _Console(Console):
    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # rich would leave with exit code 1, whatever was written before


def console() -> Console:
    """The console for results. A new one for each use, so that it has the present width of the terminal."""
    return _Console(highlight=False)


def complain(message: str) -> None:
    """One line on stderr."""
    print(shown(" ".join(message.split())), file=sys.stderr)


def say(text: str) -> None:
    """Plain text, wrapped where the terminal ends."""
    console().print(escape(_plain(text)), soft_wrap=not sys.stdout.isatty())


def _plain(text: str) -> str:
    """Text in lines, with escapes for what a terminal would obey or the encoding of stdout does not have."""
    text = "\n".join(map(shown, text.split("\n")))
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def after_writing(path: object) -> Iterator[None]:
    """For messages after the result is written: if they cannot be printed, the command has still succeeded."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:  # nobody reads it any more, or the disk that takes it is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor does what is left in the buffer fail
        complain(f"Note: {path} is written, but what happened could not be printed: {error.strerror or error}.")


@contextmanager
def status(text: str) -> Iterator[Callable[[str], None]]:
    """A line on stderr that moves while something takes its time, on a terminal; call what it gives to change it."""
    if not sys.stderr.isatty():
        yield lambda _text: None
        return
    with Console(stderr=True).status(escape(shown(text))) as line:
        yield lambda text: line.update(escape(shown(text)))


def show_json(value: object) -> None:
    """JSON that any parser takes: what is not finite is null."""
    text = json.dumps(_finite(value), indent=2, ensure_ascii=False, allow_nan=False)
    print(re.sub(r"[^\n -~]", _escaped, text))


def _escaped(found: "re.Match[str]") -> str:
    """A character of a JSON text as it is, or as JSON's own escape where it may not be printed."""
    letter, encoding = found[0], sys.stdout.encoding or "utf-8"
    if letter.isprintable() and letter.encode(encoding, "ignore"):
        return letter
    return json.dumps(letter)[1:-1]


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def _wrapped(heading: str, width: int) -> str:
    """A heading in lines: broken at spaces, and after the colon of ``mine.py:Name``."""
    words = re.sub(r":(?=\S)", ":\0 ", heading)
    lines = textwrap.wrap(words, max(width, 8), break_long_words=False)
    return "\n".join(lines).replace("\0 ", "").replace("\0", "") or heading


def spread(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, ends: int, right: Sequence[str] = (), title: str = ""
) -> Iterator[Table]:
    """A table; or, where its columns do not fit the terminal, several with the same first and last `ends` columns."""
    last = len(columns) - ends
    widths = [
        3 + max([len(row[place]) for row in rows] + [len(line) for line in _heading(columns, rows, place).splitlines()])
        for place in range(len(columns))
    ]
    room = console().width - widths[0] - sum(widths[last:])
    parts: list[list[int]] = [[]]
    for place in range(1, last):
        if parts[-1] and sum(widths[k] for k in [*parts[-1], place]) > room:
            parts.append([])
        parts[-1].append(place)
    for part in parts:
        kept = [0, *part, *range(last, len(columns))]
        yield table([columns[k] for k in kept], [[row[k] for k in kept] for row in rows], right=right, title=title)


def _heading(columns: Sequence[str], rows: Sequence[Sequence[str]], place: int) -> str:
    """A heading may wrap where the cells below it do not."""
    widest = max((len(row[place]) for row in rows), default=0)
    return _wrapped(columns[place], widest) if place and widest <= _WHOLE else columns[place]


def table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = (), title: str = ""
) -> Table:
    """A table that wraps inside its long cells: names that people look things up by, and numbers, stay whole."""
    made = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for place, name in enumerate(columns):
        widest = max((len(row[place]) for row in rows), default=0)
        whole = widest <= (44 if place == 0 else _WHOLE)
        made.add_column(
            _heading(columns, rows, place),
            justify="right" if name in right else "left",
            no_wrap=whole,
            overflow="fold",  # on a terminal narrower than one column needs: nothing is cut off
        )
    for row in rows:
        made.add_row(*(escape(_plain(cell)) for cell in row))
    return made
