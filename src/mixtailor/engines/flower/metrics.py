"""Metrics of clients, some of which may be Byzantine: medians over the clients, without weights."""

from collections import Counter
from collections.abc import Mapping, Sequence

from flwr.app import MetricRecord, RecordDict

from mixtailor.engines.claims import lower_median, number

__all__ = ["medians", "scalars"]


def medians(contents: Sequence[RecordDict], weighted_by_key: str) -> MetricRecord:
    """The median of each metric that more than half of the clients sent, of lists entry by entry.

    Parameters
    ----------
    contents : sequence of RecordDict
        What clients sent; one without exactly one record of metrics does not count.
    weighted_by_key : str
        The claimed number of examples, which is left out.

    Examples
    --------
    >>> sent = [RecordDict({"m": MetricRecord({"loss": loss})}) for loss in (0.5, 0.4, 1e30)]
    >>> medians(sent, "num-examples")
    {'loss': 0.5}
    """
    records = [next(iter(c.metric_records.values())) for c in contents if len(c.metric_records) == 1]
    found = MetricRecord()
    names = Counter(name for record in records for name in record)
    for name, count in names.items():
        if 2 * count <= len(contents) or name == weighted_by_key:
            continue
        given = [record[name] for record in records if name in record]
        single = [value for value in given if not isinstance(value, list)]
        lists = [value for value in given if isinstance(value, list)]
        if 2 * len(single) > len(contents):
            found[name] = lower_median(single)
        elif lists:
            length, most = Counter(map(len, lists)).most_common(1)[0]
            if 2 * most > len(contents):
                alike = [value for value in lists if len(value) == length]
                found[name] = [lower_median([value[place] for value in alike]) for place in range(length)]
    return found


def scalars(metrics: Mapping[str, object], prefix: str = "") -> dict[str, float]:
    """What a tracker can draw: the single numbers, and of lists how long they are."""
    return {
        f"{prefix}{name}": float(len(value)) if isinstance(value, list) else number(value)
        for name, value in metrics.items()
        if isinstance(value, int | float | list)
    }
