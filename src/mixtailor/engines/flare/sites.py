"""What sites sent: sound updates, and what is wrong with the others."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from mixtailor._checks import shown
from mixtailor._types import Array
from mixtailor.engines.claims import is_claim, lower_median
from mixtailor.engines.flare.models import Model, parts_of, rows_of, whole
from mixtailor.intake import Arrival
from mixtailor.intake.arrays import discrete_result
from mixtailor.intake.digests import digest_of
from mixtailor.storage.converted import Source
from mixtailor.storage.kinds import Unfit

__all__ = ["Claims", "Collected", "Sent", "collect", "medians"]


@final
@dataclass(frozen=True)
class Sent:
    """What a site sent."""

    params: Any
    kind: Any
    claim: Any
    metrics: Any


@final
@dataclass(frozen=True)
class Claims:
    """What is made of the number that a site claims: a weight, of which no site has more than the cap, or nothing."""

    cap: float | None
    most: float

    def of(self, sent: Sent) -> float:
        """The claim of a site; one that cannot be is a fault."""
        if self.cap is None:
            return 1.0
        if not is_claim(sent.claim, self.most):
            text = shown(sent.claim)[:40]
            raise Unfit(f"one with a claim of {text}, where a number from 0 to {self.most:g} is possible")
        return float(sent.claim)


@final
@dataclass
class Collected:
    """The updates of a round, by the names of the sites.

    Attributes
    ----------
    names : list of str
        The sites, in order.
    sites : list of list of Sent
        All that each of them sent.
    sound, parts, weights : dict
        What each sound site sent, its arrays and its claim, by its place among the names.
    faults : dict
        What is wrong with the others.
    """

    names: list[str]
    sites: list[list[Sent]]
    sound: dict[int, Sent] = field(default_factory=dict)
    parts: dict[int, dict[str, Source]] = field(default_factory=dict)
    weights: dict[int, float] = field(default_factory=dict)
    faults: dict[int, str] = field(default_factory=dict)

    def arrival(self, model: Model, *, differences: bool) -> Arrival:
        """The sound updates as differences to the model, read where they are. The result is a difference, too."""
        places = sorted(self.parts)
        storage = rows_of([self.parts[place] for place in places], model, differences=differences)

        def restore(result: Any, left: tuple[int, ...]) -> dict[str, Array]:
            parts = dict(zip(model.floats, [result] if len(model.floats) == 1 else result, strict=True))
            for name in model.counts:
                parts[name] = discrete_result(model.kinds[name], [whole(self.parts[place][name]) for place in left])
            return parts

        def sent(place: int) -> bytes:
            return digest_of([_written(one) for one in self.sites[place]])

        faults, n = dict(self.faults), len(self.names)
        return Arrival(storage, tuple(places), faults, n, restore, _refused, base=True, sent=sent)


def _refused(_reference: Any) -> Any:
    raise TypeError("The FLARE adapter takes no reference.")


def _written(sent: Sent) -> Any:
    """An update as containers of arrays and numbers; of a tensor on the disk, its entries."""
    params = sent.params
    if isinstance(params, Mapping):
        params = {
            name: item.materialize() if type(item).__name__ == "_LazyRef" else item for name, item in params.items()
        }
    return {"params": params, "kind": str(sent.kind), "claim": sent.claim}


def collect(sites: Mapping[str, Sequence[Sent]], model: Model, claims: Claims, kind: object) -> Collected:
    """Sort the updates. Whatever a site sent, it is this site's fault alone.

    Parameters
    ----------
    sites : mapping
        What each site sent, by name.
    model : Model
        What they were sent.
    claims : Claims
    kind : ParamsType
        What most sites sent, models or differences.
    """
    names = sorted(sites)  # the order of arrival would let whoever comes first win ties
    found = Collected(names, [list(sites[name]) for name in names])
    for place, updates in enumerate(found.sites):
        try:
            if len(updates) > 1:
                raise Unfit(f"one of {len(updates)} updates in one round")
            sent = updates[0]
            if sent.kind != kind:
                raise Unfit(f"of kind {shown(getattr(sent.kind, 'value', sent.kind))} where most sent another")
            weight, parts = claims.of(sent), parts_of(sent.params, model)
            found.sound[place], found.parts[place], found.weights[place] = sent, parts, weight
        except Unfit as error:
            found.faults[place] = str(error)
        except Exception as error:  # an update may be broken in ways that nobody has thought of
            found.faults[place] = f"not an update ({type(error).__name__}: {shown(error)[:160]})"
    return found


def medians(sound: Sequence[Sent]) -> dict[str, float] | None:
    """The median of each metric that more than half of the sites sent."""
    given = [sent.metrics for sent in sound if isinstance(sent.metrics, Mapping)]
    names = Counter(name for metrics in given for name, value in metrics.items() if _is_number(value))
    found = {
        str(name): lower_median([metrics[name] for metrics in given if _is_number(metrics.get(name))])
        for name, count in names.items()
        if 2 * count > len(sound)
    }
    return found or None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
