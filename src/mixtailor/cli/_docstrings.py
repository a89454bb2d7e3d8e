"""Docstrings as data: the sections that this package writes, and references in short."""

import inspect
import re
from dataclasses import dataclass, field

__all__ = ["Docstring", "Parameter", "parsed", "short_reference"]

_RULE = re.compile(r"^-{3,}$")
_REFERENCE = re.compile(r"^\.\. \[(\d+)\] ", re.MULTILINE)


@dataclass(frozen=True)
class Parameter:
    """One parameter: its name or names, its type and what it is."""

    name: str
    kind: str
    text: str


@dataclass(frozen=True)
class Docstring:
    """A docstring, taken apart.

    Attributes
    ----------
    summary : str
        The first paragraph.
    body : str
        What follows before the first section.
    sections : dict of str
        The text of each section, by its title.
    """

    summary: str
    body: str
    sections: dict[str, str] = field(default_factory=dict)

    @property
    def parameters(self) -> list[Parameter]:
        """The section Parameters, one by one."""
        found: list[Parameter] = []
        for line in self.sections.get("Parameters", "").splitlines():
            if line and not line.startswith(" "):
                name, _, kind = line.partition(" : ")
                found.append(Parameter(name.strip(), kind.strip(), ""))
            elif line.strip():
                last = found.pop()
                found.append(Parameter(last.name, last.kind, f"{last.text} {line.strip()}".strip()))
        return found

    @property
    def references(self) -> list[str]:
        """The section References, one by one, each on one line."""
        parts = _REFERENCE.split(self.sections.get("References", ""))[2::2]
        return [" ".join(part.split()) for part in parts]


def parsed(documented: object) -> Docstring:
    """The docstring of a class or function."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    starts = [at for at in range(len(lines) - 1) if lines[at] and _RULE.match(lines[at + 1])]
    head = "\n".join(lines[: starts[0]] if starts else lines).strip()
    summary, _, body = head.partition("\n\n")
    ends = [*starts[1:], len(lines)]
    sections = {
        lines[start]: "\n".join(lines[start + 2 : stop]).strip("\n") for start, stop in zip(starts, ends, strict=False)
    }
    return Docstring(" ".join(summary.split()), body.strip(), sections)


def short_reference(reference: str) -> str:
    """Authors and place without the title.

    Examples
    --------
    >>> short_reference('Cao, Fang, Liu, Gong, "FLTrust: ... Trust Bootstrapping", NDSS 2021.')
    'Cao et al., NDSS 2021'
    >>> short_reference('Shejwalkar, Houmansadr, "Manipulating the Byzantine", NDSS 2021.')
    'Shejwalkar and Houmansadr, NDSS 2021'
    """
    match = re.match(r'(?P<authors>[^"]+), "[^"]*",? (?P<place>[^;]+)', reference)
    if match is None:
        return reference.rstrip(".")
    authors = match["authors"].split(", ")
    whose = authors[0] if len(authors) == 1 else " and ".join(authors) if len(authors) == 2 else f"{authors[0]} et al."
    return f"{whose}, {match['place'].rstrip('.')}"
