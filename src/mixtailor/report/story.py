"""What happened, in sentences made from the records: for a reader who does not know the subject yet."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from mixtailor.attacks.registry import own_attacks
from mixtailor.experiments.worst import WorstCase, groups, worst_cases
from mixtailor.report.looks import class_of, classes_of, mixes, plain_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mixtailor.experiments.results import Result, Results
    from mixtailor.experiments.worst import Group

__all__ = ["byzantine_choices", "story"]

MOST_GROUPS, MOST_RULES = 3, 9  # described in sentences; the tables have the rest


def story(results: Results) -> list[dict[str, Any]]:
    """A part for each setting: its title, sentences about who trained and who attacked, and one for each rule.

    Examples
    --------
    >>> from mixtailor.experiments import Result, Results
    >>> config = {"data": "digits", "model": "mlp", "n": 12, "f": 2, "byzantine": 2, "rounds": 10, "seed": 0}
    >>> record = {"round": 10, "accuracy": 0.2, "drawn": {"Krum(f=2)": 10}, "selected": {"0": 9, "5": 1},
    ...           "byzantine": {"0": 10, "1": 10}}
    >>> run = Result("", "Krum", "mine", "", "", config, [record], True)
    >>> story(Results({}, [run], []))[0]["rules"][0]["text"]
    'Krum chose a Byzantine worker in 90 % of its rounds and ended at 20.0 % accuracy.'
    """
    sentences = []
    for group in groups(results)[:MOST_GROUPS]:
        runs = group.runs
        cases = worst_cases(group) or _single_cases(group)
        if not cases:
            continue
        kept = _most_telling(cases, runs)
        lines = [{"rule": case.rule, "text": _rule_sentence(case, cases, group, runs)} for case in kept]
        rest = sum(class_of(_of(runs, case.rule)) != "Omniscient" for case in cases) - len(kept)
        sentences.append(
            {
                "title": group.title,
                "text": [_training(runs), *_attackers(runs), *_reference(cases, group, runs)],
                "rules": lines,
                "rest": f"{_count(rest, 'more rule')} in the table below." if rest else "",
            }
        )
    return sentences


def byzantine_choices(runs: Sequence[Result]) -> tuple[float, bool] | None:
    """The share of choices that fell on Byzantine workers, and whether each round chose exactly one worker.

    None for rules that do not choose, and where Byzantine workers change from round to round: the records count choices
    by worker, and do not say whether the worker was Byzantine in that round.
    """
    chosen = byzantine = rounds = 0
    for run in runs:
        for record in run.records:
            period = sum(record["drawn"].values())
            byzantine_workers = {who for who, count in record["byzantine"].items() if count}
            if any(record["byzantine"][who] != period for who in byzantine_workers):
                return None
            rounds += period
            chosen += sum(record["selected"].values())
            byzantine += sum(record["selected"].get(who, 0) for who in byzantine_workers)
    return (byzantine / chosen, chosen == rounds) if chosen else None


def _single_cases(group: Group) -> list[WorstCase]:
    """Where no rule was run under every attack: what there is."""
    found = []
    for rule in group.rules:
        means = {attack: mean for attack in group.attacks if (mean := group.mean(rule, attack)) is not None}
        if means:
            attack = min(means, key=lambda name: means[name])
            found.append(WorstCase(rule, attack, means[attack], means[attack], means[attack], 1))
    return sorted(found, key=lambda case: -case.accuracy)


def _most_telling(cases: Sequence[WorstCase], runs: Sequence[Result]) -> list[WorstCase]:
    """All of a few; of many, those that draw, then the best and the worst of the others. The reference is no rule."""
    real = [case for case in cases if class_of(_of(runs, case.rule)) != "Omniscient"]
    if len(real) <= MOST_RULES:
        return real
    mixing = [case for case in real if mixes(_of(runs, case.rule))][: MOST_RULES - 2]
    others = [case for case in real if case not in mixing]
    room = MOST_RULES - len(mixing)
    kept = [*mixing, *others[: room - room // 2], *others[len(others) - room // 2 :]]
    return [case for case in real if case in kept]


def _training(runs: Sequence[Result]) -> str:
    config = runs[0].config
    rounds, seeds = sorted({int(run.config["rounds"]) for run in runs}), {run.seed for run in runs}
    often = _count(rounds[0], "round") if len(rounds) == 1 else f"{rounds[0]:,} to {rounds[-1]:,} rounds"
    part = float(config.get("participation", 1.0))
    who = "every worker" if part == 1.0 else f"{100 * part:.0f} % of the workers, drawn again each time,"
    again = f" Everything was repeated with {_count(len(seeds), 'seed')}." if len(seeds) > 1 else ""
    return (
        f"{config['n']} workers trained {_model(config)} on {config.get('data', 'data')} for {often}. In each round "
        f"{who} sent an update, and the server aggregated the updates with its rule.{again}"
    )


def _model(config: dict[str, Any]) -> str:
    model = config.get("model")
    return f"a model ({model})" if model else "a model"


def _attackers(runs: Sequence[Result]) -> list[str]:
    n = int(runs[0].config["n"])
    numbers = sorted({int(run.config["byzantine"]) for run in runs if _name(run.config.get("attack")) != "none"})
    # The omniscient reference trains once for all attacks, without one, and its runs stand under every attack's name.
    attacks = {run.attack: run.config.get("attack") for run in runs if _name(run.config.get("attack")) != "none"}
    attacks.pop("none", None)
    if not numbers or not attacks or not numbers[-1]:
        return ["No worker attacked."]
    many = " or ".join(map(str, numbers))
    verb = "was" if numbers == [1] else "were"
    fixed = all(run.config.get("identities", "fixed") == "fixed" for run in runs)
    start = f"{many} of the {n} workers {verb} Byzantine{'' if fixed else ' at a time, not always the same ones,'}"
    if len(attacks) == 1:
        (label, given), *_ = attacks.items()
        what = _described(given)
        return [f"{start} and used one attack, {label}{f': {what}' if what else '.'}"]
    lines = [
        f"{start.rstrip(',')}. {len(attacks)} attacks were tried, each in runs of its own: {_joined(list(attacks))}."
    ]
    kinds: dict[str, list[str]] = {}
    for label, given in attacks.items():
        if what := _described(given):
            kinds.setdefault(what, []).append(label)
    if len(kinds) <= 4:
        lines += [f"{_joined(labels)}: {what}" for what, labels in kinds.items()]
    return lines


def _described(given: Any) -> str:
    """What an attack of ours does: the first sentence of its documentation."""
    known = own_attacks()
    known |= {kind.__name__: kind for kind in known.values()}
    kind = known.get(_name(given))
    if kind is None or not kind.__doc__:
        return ""
    text = kind.__doc__.strip().split("\n", 1)[0].replace("*", "").replace("rows", "updates").replace("row", "update")
    return text[0].lower() + text[1:]


def _name(given: Any) -> str:
    text = given.get("name", "") if isinstance(given, dict) else given
    return re.split(r"[( ]", str(text or ""), maxsplit=1)[0]


def _reference(cases: Sequence[WorstCase], group: Group, runs: Sequence[Result]) -> list[str]:
    own = _omniscient(cases, runs)
    if own is None or not all(run.complete for run in _of(runs, own.rule)):
        return []
    where = " in its worst case" if len(group.attacks) > 1 else ""
    return [
        f"The omniscient reference, which knows who is Byzantine, ended at {own.accuracy:.1f} %{where}: this is what "
        "training reaches when no attack does harm."
    ]


def _omniscient(cases: Sequence[WorstCase], runs: Sequence[Result]) -> WorstCase | None:
    return next((case for case in cases if class_of(_of(runs, case.rule)) == "Omniscient"), None)


def _rule_sentence(case: WorstCase, cases: Sequence[WorstCase], group: Group, runs: Sequence[Result]) -> str:
    own = [run for run in _of(runs, case.rule) if _attack_name(run, group) == case.attack]
    who = f"{case.rule}: its worst case is {case.attack}. It" if len(group.attacks) > 1 else case.rule
    ended = _ended(case, own)
    reference = _omniscient(cases, runs) if all(run.complete for run in own) else None
    if reference is not None and (best := group.mean(reference.rule, case.attack)) is not None:
        less = best - case.accuracy
        ended += f", {abs(less):.1f} points {'below' if less > 0 else 'above'} omniscient"
    if mixes(own):
        return f"{who} drew {_draws(own)} and {ended}.{_alone(own, case, group, runs)}"
    choices = byzantine_choices(own)
    if choices is None:
        return f"{who} {ended}."
    share, one = choices
    if one:
        return f"{who} chose a Byzantine worker in {100 * share:.0f} % of its rounds and {ended}."
    return f"{who} {ended}; {100 * share:.0f} % of the updates that it chose were Byzantine."


def _ended(case: WorstCase, own: Sequence[Result]) -> str:
    """Where a rule ended; of runs that are under way or were stopped, how far they are."""
    unfinished = [run for run in own if not run.complete]
    if not unfinished:
        return f"ended at {case.accuracy:.1f} % accuracy"
    done, rounds = min((run.records[-1]["round"], int(run.config["rounds"])) for run in unfinished)
    return f"had {case.accuracy:.1f} % accuracy after {done:,} of {rounds:,} rounds"


def _draws(runs: Sequence[Result]) -> str:
    """How many rules, and of which classes."""
    rules, counts = set(), Counter[str]()
    for run in runs:
        for record in run.records:
            rules |= set(record["drawn"])
            for name, count in record["drawn"].items():
                counts[plain_rule(name)] += count
    whole = sum(counts.values())
    shares = [f"{name} in {100 * count / whole:.0f} %" for name, count in counts.most_common(4)]
    more = f" and {len(counts) - 4} more" if len(counts) > 4 else ""
    kinds = "" if len(counts) == len(rules) else f" of {_count(len(counts), 'kind')}"
    return f"{_count(len(rules), 'rule')}{kinds} ({', '.join(shares)} of the rounds{more})"


def _alone(own: Sequence[Result], case: WorstCase, group: Group, runs: Sequence[Result]) -> str:
    """What the rules that it drew came to on their own, under the same attack: whom the attack fitted."""
    alone = []
    for name in classes_of(own):
        rule = next((rule for rule in group.rules if class_of(_of(runs, rule)) == name), None)
        mean = None if rule is None else group.mean(rule, case.attack)
        if mean is not None:
            alone.append((mean, rule))
    if not alone:
        return ""
    shown = [f"{rule} {mean:.1f} %" for mean, rule in sorted(alone, key=lambda item: item[0])]
    return f" On their own, under the same attack: {_joined(shown)}."


def _attack_name(run: Result, group: Group) -> str:
    return run.attack if run.attack in group.attacks else f"{run.attack}, {run.config['byzantine']} Byzantine"


def _of(runs: Sequence[Result], rule: str) -> list[Result]:
    return [run for run in runs if run.rule == rule]


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _joined(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
