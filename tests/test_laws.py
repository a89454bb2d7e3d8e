"""Every exported rule, crossed with every law that it does not declare off and every storage that updates can have."""

import dataclasses
import re

import numpy as np
import pytest
import samples
import storages

import mixtailor as mt
from mixtailor.kernels.selection import by_neighbours
from mixtailor.testing import LAWS, Case, LawError, check_rule
from mixtailor.testing.laws import named

EVERYTHING = samples.everything()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("rule", EVERYTHING, ids=repr)
def test_law(rule: mt.Rule, law: str) -> None:
    """The law holds, or is declared off with a reason."""
    if (reason := rule.missing_laws().get(law)) is not None:
        assert len(reason) > 15, "a law that is declared off needs a reason"
        pytest.skip(f"declared off: {reason}")
    with named(law, rule):
        LAWS[law](rule, Case.of(rule))


@pytest.mark.parametrize("rule", EVERYTHING, ids=repr)
def test_storages_agree(rule: mt.Rule, tmp_path) -> None:
    """Wherever the updates are stored, the result is the same: matrix, list, tensor, layers, files, device."""
    case = Case.of(rule, d=211, extra=2)
    rows = case.rows.astype(np.float32)
    expected = case.ask(rule, rows)
    spread = float(np.abs(rows - np.median(rows, axis=0)).max())
    for name, house in storages.STORAGES.items():
        sent, reference, flat = house(rows, case.reference.astype(np.float32), tmp_path)
        result = case.ask(rule, sent, reference=reference)
        apart = float(np.abs(flat(result.update).astype(np.float64) - expected.update).max())
        assert apart <= 1e-6 * spread, f"{name}: {apart}"
        assert result.selected == expected.selected, name
        assert repr(result.rule) == repr(expected.rule), name


@pytest.mark.parametrize("rule", [rule for rule in samples.rules() if rule.declared_f() is not None], ids=repr)
def test_requirement_is_the_formula_it_states(rule: mt.Rule) -> None:
    """`requirement` and `min_rows` say the same."""
    match = re.fullmatch(r"n >= ([0-9f +*]+)", rule.requirement)
    if match is None:
        pytest.skip(f"not a formula in f alone: {rule.requirement}")
    formula = re.sub(r"(\d)f", r"\1*f", match[1])
    for f in range(5):
        assert rule.with_f(f).min_rows() == eval(formula, {"f": f})  # noqa: S307  # our own ClassVar


# The laws themselves: each of these defects must be caught by the laws alone.


@dataclasses.dataclass(frozen=True)
class OneNeighbourMore(mt.Krum):
    def decide(self, updates):
        order, scores = by_neighbours(updates.distances(self.p), updates.n - self.f - 1, self.power)
        return updates.row(order[0], scores=scores)


@dataclasses.dataclass(frozen=True)
class ArgMax(mt.Krum):
    def decide(self, updates):
        order, scores = by_neighbours(updates.distances(self.p), updates.n - self.f - 2, self.power)
        return updates.row(order[-1], scores=scores)


@dataclasses.dataclass(frozen=True)
class WritesToItsInput(mt.Comed):
    def decide(self, updates):
        updates.reader.storage.rows[0][:] += 1.0
        return super().decide(updates)


@dataclasses.dataclass(frozen=True)
class FirstRow(mt.Comed):
    def decide(self, updates):
        return updates.row(0)


@dataclasses.dataclass(frozen=True)
class Shrinks(mt.Comed):
    def decide(self, updates):
        return updates.combine(np.full(updates.n, 0.9 / updates.n))


@pytest.mark.parametrize("rule", [ArgMax(1), WritesToItsInput(), FirstRow(), Shrinks()], ids=repr)
def test_a_broken_rule_is_caught(rule: mt.Rule) -> None:
    with pytest.raises(LawError):
        check_rule(rule)


def test_quarantine_off_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were non-finite rows not looked for, the laws would say so."""
    from mixtailor.updates.reader import Reader

    monkeypatch.setattr(Reader, "examine", lambda self: None)
    for rule in (mt.Comed(), mt.Krum(1), mt.TrimmedMean(1)):
        with pytest.raises(LawError, match=r"faults|finite"):
            check_rule(rule)
