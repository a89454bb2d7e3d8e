r"""The one grammar of rules as text: ``nnm >> krum(p=3)``, for the command line, TOML files and `make_rule`.

::

    rule     =  call, { ">>", call }
    name     =  word | file or module, ":", word
    call     =  name, [ "(", [ argument, { ",", argument } ], ")" ]
    argument =  [ name, "=" ], value
    value    =  number | "true" | "false" | "none" | quoted text | "[", [ value, { ",", value } ], "]" | rule

This module reads; `mixtailor.mixing.registry` makes rules of what was read.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from mixtailor._checks import refuse
from mixtailor._references import PATTERN as REFERENCE

__all__ = ["Call", "Written", "parse", "read_value", "split"]

EXAMPLE = "'nnm >> krum(p=3)'"
_DEEPEST = 20
_TOKENS = re.compile(
    rf"""\s*(?:
    (?P<reference>{REFERENCE})
    | (?P<number>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]) | [-+]?inf\b)
    | (?P<name>[A-Za-z_][\w.]*(?:-[A-Za-z_][\w.]*)*)
    | (?P<text>'[^']*'|"[^"]*")
    | (?P<sign>>>|[()\[\],=])
    | (?P<end>\Z)
    )""",
    re.VERBOSE,
)
_WORDS: Mapping[str, object] = {"true": True, "false": False, "none": None}


@dataclass(frozen=True)
class Call:
    """A name and what stands in parentheses behind it."""

    name: str
    arguments: tuple[object, ...] = ()
    keywords: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Written:
    """A rule as it was written: calls, of which all but the last are pre-aggregations.

    A single word may also be meant as text: `word` is it then.
    """

    calls: tuple[Call, ...]
    word: str | None = None


def parse(text: str) -> Written:
    """The calls of a rule.

    Examples
    --------
    >>> [call.name for call in parse("nnm >> krum(p=3)").calls]
    ['nnm', 'krum']
    >>> parse("krum p=3")
    Traceback (most recent call last):
    ValueError: 'krum p=3' cannot be read from 'p=3' on: parameters go in parentheses. Write it as in ...
    """
    return _Reader(text).whole_rule()


def read_value(text: str) -> object:
    """A number, truth value, None, list or quoted text; anything else is returned as the text that it is.

    In a list, words are text, and rules with parameters are read as rules.

    Examples
    --------
    >>> [read_value(text) for text in ("3", "1e-6", "inf", "true", "none", "[1, 2]", "comed", "sum/f")]
    [3, 1e-06, inf, True, None, [1, 2], 'comed', 'sum/f']
    """
    try:
        found = _Reader(text).whole_value()
    except ValueError:
        return text
    return text.strip() if isinstance(found, Written) else _plain(found)


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value.word if isinstance(value, Written) and value.word is not None else value


def split(text: str) -> list[str]:
    """The parts of a list that is separated by commas; commas inside brackets do not separate.

    Examples
    --------
    >>> split("krum, nnm >> bulyan(f=2, then=comed),tailored 0.1")
    ['krum', 'nnm >> bulyan(f=2, then=comed)', 'tailored 0.1']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


class _Token(NamedTuple):
    kind: str
    text: str
    start: int


class _Reader:
    """Reads one text from the left, looking at one token at a time."""

    def __init__(self, text: str) -> None:
        self.text, self.place, self.depth = text, 0, 0
        self.token = self._next()

    def whole_rule(self) -> Written:
        if self.token.kind == "end":
            refuse(f"A rule needs a name, as in {EXAMPLE}, and got {self.text!r}.")
        found = self._rule()
        self._end()
        return found

    def whole_value(self) -> object:
        found = self._value()
        self._end()
        return found

    def _end(self) -> None:
        if self.token.kind != "end":
            named = self.token.kind == "name"
            self._refuse("parameters go in parentheses" if named else f"there is a {self.token.text!r} too many")

    def _rule(self) -> Written:
        calls = [self._call()]
        while self._passes(">>"):
            calls.append(self._call())
            if len(calls) > _DEEPEST:
                self._refuse(f"more than {_DEEPEST} rules stand behind one another")
        first = calls[0]
        alone = len(calls) == 1 and not first.arguments and not first.keywords
        return Written(tuple(calls), first.name if alone else None)

    def _call(self) -> Call:
        if self.token.kind != "name":
            self._refuse("the name of a rule is missing")
        name = self._take()
        arguments: list[object] = []
        keywords: dict[str, object] = {}
        if self._passes("("):
            while not self._passes(")"):
                self._argument(arguments, keywords)
                if not self._passes(",") and self.token.text != ")":
                    self._refuse("a closing parenthesis or a comma is missing")
        return Call(name, tuple(arguments), keywords)

    def _argument(self, arguments: list[object], keywords: dict[str, object]) -> None:
        start = self.token
        value = self._value()
        if not self._passes("="):
            if keywords:
                self._refuse("a value without a name comes after one with a name", start)
            arguments.append(value)
            return
        name = value.word if isinstance(value, Written) else None
        if name is None:
            self._refuse("the name of a parameter is missing", start)
        if name in keywords:
            self._refuse(f"{name} is given twice", start)
        keywords[name] = self._value()

    def _value(self) -> object:
        kind, text = self.token.kind, self.token.text
        if kind == "number":
            self._take()
            return int(text) if re.fullmatch(r"[-+]?\d+", text) else float(text)
        if kind == "text":
            return self._take()[1:-1]
        if kind == "name" and text.lower() in _WORDS:
            return _WORDS[self._take().lower()]
        self.depth += 1
        if self.depth > _DEEPEST:
            self._refuse(f"more than {_DEEPEST} rules are nested")
        found = self._list() if self._passes("[") else self._rule() if kind == "name" else None
        if found is None:
            self._refuse("a value is missing")
        self.depth -= 1
        return found

    def _list(self) -> list[object]:
        found: list[object] = []
        while not self._passes("]"):
            found.append(self._value())
            if not self._passes(",") and self.token.text != "]":
                self._refuse("a closing bracket or a comma is missing")
        return found

    def _passes(self, sign: str) -> bool:
        """Whether this sign comes next; it is then read."""
        if self.token.kind != "sign" or self.token.text != sign:
            return False
        self._take()
        return True

    def _take(self) -> str:
        text = self.token.text
        self.token = self._next()
        return text

    def _next(self) -> _Token:
        found = _TOKENS.match(self.text, self.place)
        if found is None or found.lastgroup is None:
            start = self.place + len(self.text[self.place :]) - len(self.text[self.place :].lstrip())
            self._refuse("this is no part of a rule", _Token("none", self.text[start:], start))
        self.place = found.end()
        kind = "name" if found.lastgroup == "reference" else found.lastgroup
        return _Token(kind, found[found.lastgroup], found.start(found.lastgroup))

    def _refuse(self, why: str, at: _Token | None = None) -> NoReturn:
        rest = self.text[(at or self.token).start :]
        where = f"from {_short(rest)} on" if rest.strip() else "to its end"
        refuse(f"{_short(self.text)} cannot be read {where}: {why}. Write it as in {EXAMPLE}.")


def _short(text: str) -> str:
    """A text as an error shows it."""
    return repr(text if len(text) <= 200 else text[:200] + "...")
