"""Where the randomness of a rule comes from, and where its draws are written down."""

from mixtailor.mixing.audit import AuditTrail
from mixtailor.mixing.entropy import Entropy, SystemEntropy
from mixtailor.rules.part import Part, walk

__all__ = ["source_of", "trails_of"]


def source_of(rule: Part) -> Entropy:
    """The entropy that a rule or one of its parts was given; the operating system's if none was.

    Examples
    --------
    >>> import mixtailor as mt
    >>> source_of(mt.NNM(1) >> mt.Krum(1))
    SystemEntropy()
    """
    given = [source for part in walk(rule) if isinstance(source := getattr(part, "entropy", None), Entropy)]
    return next((source for source in given if source != SystemEntropy()), SystemEntropy())


def trails_of(rule: Part) -> list[AuditTrail]:
    """The audit trails that a rule or its parts write to.

    Examples
    --------
    >>> import mixtailor as mt
    >>> trails_of(mt.MixTailor([mt.Krum(1), mt.Comed()]))
    []
    """
    return [trail for part in walk(rule) if isinstance(trail := getattr(part, "audit", None), AuditTrail)]
