"""Where the randomness of a rule comes from."""

from mixtailor.mixing.entropy import Entropy, SystemEntropy
from mixtailor.rules.part import Part, walk

__all__ = ["source_of"]


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
