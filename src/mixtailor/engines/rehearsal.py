"""A rule tried on harmless updates before the first model is sent: what fails here is the server's own mistake."""

import warnings
from collections.abc import Sequence

import numpy as np

from mixtailor._checks import plural
from mixtailor.engines.claims import weighing
from mixtailor.memory import Guarded, Memory
from mixtailor.mixing import MixTailor
from mixtailor.mixing.entropy import SystemEntropy
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.part import walk
from mixtailor.rules.plain import Plain

__all__ = ["rehearse", "why_skipped"]

_FEW = 16


def rehearse(rule: Rule, n: int, d: int, *, reference: bool, cap: float | None = None) -> None:
    """Apply every rule of a pool once to n updates that are alike. What it raises is raised here.

    A memory that was restored from the training of another model is refused, too. From then on an error comes from
    what clients sent, and does not end the run.

    Parameters
    ----------
    rule : Rule
    n, d : int
        How many clients are asked, and how many real numbers the model has. Rules of ours are tried on few
        coordinates; a function may need all of them.
    reference : bool
        Whether rounds will have a reference.
    cap : float, optional
        The most of the weight that one client will have, where their claims count. Tried with f clients at the cap
        and f others that claim nothing.

    Examples
    --------
    >>> import mixtailor as mt
    >>> rehearse(mt.Krum(f=2), 9, 1000, reference=False)
    >>> rehearse(mt.FLTrust(), 9, 1000, reference=False)
    Traceback (most recent call last):
    ValueError: FLTrust needs the server's own update and got none. Give it with the call, as reference=.
    """
    for part in walk(rule):
        if isinstance(part, Memory):
            part.check_length(d)
    members: Sequence[Rule] = rule.rules if isinstance(rule, MixTailor) else (rule,)
    if isinstance(rule, (Guarded, Memory)):
        members = rule.fresh().members(n)[0]  # what it remembers is of clients alone, and stays as it is
    heavy = rule.declared_f() or 0
    # At the worst, f honest clients are at the cap, and the Byzantine ones claim nothing: Krum allows a smaller share
    # where fewer clients have weight, and no claim of theirs may make it refuse a round.
    claims = {place: 1e9 if place < heavy else 1.0 for place in range(n - heavy)}
    weights = weighing(claims, n, cap)
    for member in members:
        parts = list(walk(member))
        audited = any(getattr(part, "audit", None) is not None for part in parts)  # every call of it is on the record
        if audited or member.min_rows() > n:
            continue
        size = d if any(isinstance(part, Plain) for part in parts) else min(d, _FEW)
        rows = np.cos(np.arange(n * size) ** 1.5).reshape(n, size).astype(np.float32)  # no generator is touched
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            member(rows, reference=rows[0] if reference else None, entropy=SystemEntropy(), **weights)


def why_skipped(result: Aggregation, senders: str) -> str:
    """Why an aggregation gave no update; nothing where it gave one."""
    if result.update is not None:
        return ""
    if "failed" in result.facts:
        return f"{result.rule!r} failed on what {senders} sent ({result.facts['failed']})."
    bad = plural(len(result.quarantined), "update is", "updates are")
    return f"{bad} bad of {result.n}, and f = {result.rule.tolerates(result.n)}."
