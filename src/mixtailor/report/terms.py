"""The words of the field that a page explains: on hover, on focus, on a tap, and in a list at its end."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

__all__ = ["TERMS", "explained"]

TERMS = {
    "update": "What a worker sends to the server in a round: a gradient, or how its model changed.",
    "rule": "How the server makes one update out of all the updates it received. The mean is the simplest rule; robust "
    "rules are built to tolerate wrong updates.",
    "Byzantine": "A Byzantine worker may send anything, and all of them may work together. The server does not know "
    "which workers they are.",
    "f": "How many Byzantine updates the rule is set up to tolerate. n is the number of all workers.",
    "attack": "How the Byzantine workers compute what they send. Here they see the updates of all honest workers.",
    "epsilon": "The strength of the tailored attack: each Byzantine worker sends minus epsilon times the mean of the "
    "honest updates. A small epsilon hides near the honest updates and fools rules such as Krum; a large one pulls "
    "the mean backwards.",
    "adaptive": "The attacker tries several strengths in each round and uses the one that does most harm.",
    "omniscient": "A reference that knows which workers are Byzantine and takes the mean of the honest updates. No "
    "real server can do this: it shows what training reaches without harm.",
    "worst case": "A rule's lowest accuracy over all attacks tried here. An attacker who knows the rule chooses that "
    "attack, so this is the number to compare rules by.",
    "MixTailor": "A server that draws one rule at random from a pool in each round, after the updates have arrived. An "
    "attack that is tailored to one rule fails in the rounds of the others.",
    "pool": "The rules from which a MixTailor draws.",
    "accuracy": "The share of test examples that the model classifies correctly, in percent. For regression, the "
    "share of the targets' variance that it explains (R²), 0 where that is negative.",
    "seed": "A number that fixes all randomness of a run. Several seeds show how much chance there is in a result.",
    "round": "One step of training: all workers send an update, the server aggregates them and changes the model.",
    "95 %": "A 95 % interval by bootstrap: the seeds are resampled, and 95 % of the worst cases found that way "
    "are within it.",
    "weight": "What share of the aggregate an update makes up. With the mean of n updates it is 1/n for each.",
}
_FORMS = {
    "updates": "update",
    "rules": "rule",
    "attacks": "attack",
    "seeds": "seed",
    "rounds": "round",
    "worst": "worst case",
}
_WORDS = sorted([*TERMS, *_FORMS], key=len, reverse=True)
# Whole words only; "f" and "epsilon" also where a name such as "f=2" or "epsilon=0.1" contains them.
_PATTERN = re.compile(rf"(?<![\w.-])({'|'.join(map(re.escape, _WORDS))})(?![\w-])")


def explained(text: str, seen: set[str] | None = None) -> Markup:
    """The text as HTML, the first occurrence of each term as a button that explains it.

    Parameters
    ----------
    text : str
        Plain text. It is escaped.
    seen : set of str, optional
        Terms that stay plain. Those explained here are added, so that a section explains each term once.

    Examples
    --------
    >>> str(explained("a <b> rule", {"rule"}))
    'a &lt;b&gt; rule'
    >>> "aria-describedby" in explained("Two workers are Byzantine.")
    True
    >>> str(explained("at 90 %", {"accuracy"}))
    'at 90\\xa0%'
    >>> str(explained("all updates: sent")).endswith("updates</button>:</span> sent")
    True
    """
    from markupsafe import Markup, escape

    text = re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)  # the sign would begin a line of its own
    seen = set() if seen is None else seen
    made, last = Markup(""), 0
    for match in _PATTERN.finditer(text):
        term = _FORMS.get(match[1], match[1])
        if term in seen or match.start() < last:
            continue
        seen.add(term)
        button = Markup('<button type="button" class="term" aria-describedby="{}">{}</button>').format(
            f"term-{list(TERMS).index(term)}", match[1]
        )
        rest = text[match.end() :].split(maxsplit=1)[0] if text[match.end() :][:1].strip() else ""
        made += escape(text[last : match.start()])
        # A line may break behind a button; what follows the word without a space, such as a comma, stays with it.
        made += Markup('<span class="kept">{}{}</span>').format(button, rest) if rest else button
        last = match.end() + len(rest)
    return made + escape(text[last:])
