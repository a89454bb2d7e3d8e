"""MixTailor: one draw a call, uniform, after the updates arrived; pools and what n forbids."""

import numpy as np
import pytest
from scipy import stats

import mixtailor as mt
from mixtailor.mixing import verify
from mixtailor.mixing.registry import find, make_rule, names
from mixtailor.rules.request import Request
from mixtailor.theory import kappa_lower_bound

ROWS = np.random.default_rng(0).normal(size=(12, 5))


def test_the_papers_pool() -> None:
    pool = mt.paper_pool(2)
    kinds = [type(rule).__name__ for rule in pool]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == dict.fromkeys(
        ("Krum", "Comed", "GeometricMedian", "Bulyan"), 16
    )
    assert [rule.p for rule in pool[:16]] == [float(p) for p in range(1, 17)]
    assert len({repr(rule) for rule in pool[48:]}) == 16 and {rule.p for rule in pool[48:]} == {2.0}
    assert len(mt.paper_pool(4, n=12)) == 48
    assert mt.paper_pool(2, rng=7)[:16] != mt.paper_pool(2)[:16]
    assert mt.paper_pool(2, rng=7) == mt.paper_pool(2, rng=7)
    drawn = [rule.p for seed in range(4) for rule in mt.paper_pool(2, norms=(3, 4), rng=seed) if type(rule) is mt.Krum]
    assert set(drawn) == {3.0, 4.0}, "both ends are drawn"
    assert {type(rule).__name__ for rule in mt.paper_pool(2, without=("bulyan", "krum"))} == {
        "Comed",
        "GeometricMedian",
    }
    assert [len(mt.paper_pool(2, n=n)) for n in (10, 11)] == [48, 64], "Bulyan needs eleven rows"
    with pytest.raises(ValueError, match="Did you mean 'bulyan'"):
        mt.paper_pool(2, without=("bulian",))
    for pool_of in (mt.paper_pool, mt.default_pool):
        with pytest.raises(ValueError, match=f"{pool_of.__name__} needs f"):
            pool_of(-1)


def test_bulyans_of_the_papers_pool_have_their_norms() -> None:
    """One for each pair of phases, in order, and in both phases; sixteen, or none at all."""
    norms = [float(p) for p in range(3, 19)]
    found = mt.paper_pool(2, bulyan_norms=norms)[48:]
    assert [rule.p for rule in found] == norms
    assert found[0].selection == mt.Krum(2, p=3.0) and found[0].then == mt.Krum(2, p=3.0)
    assert found[10].selection == found[10].then == mt.GeometricMedian(p=13.0)
    assert (found[7].selection, found[7].then) == (mt.Mean(), mt.Comed())
    assert [len(mt.paper_pool(2, norms=given)) for given in ((4,), (2, 3))] == [19, 22]
    with pytest.raises(ValueError, match="needs sixteen bulyan_norms, one for each pair of phases, and got 15"):
        mt.paper_pool(2, bulyan_norms=norms[1:])
    with pytest.raises(ValueError, match="needs at least one norm and got none"):
        mt.paper_pool(2, norms=())


def test_the_default_pool_has_finite_coefficients() -> None:
    """CAF's published guarantee is in terms of the top eigenvalue, so that a search stands for its coefficient."""
    for f in (1, 2, 4):
        known = [rule for rule in mt.default_pool(f) if rule != mt.CAF(f)]
        assert len(known) == 1 and all(0 < rule.kappa(12, f, 21840) < 200 for rule in known)
        found = kappa_lower_bound(mt.CAF(f), 12, f, steps=40, seeds=1)
        assert 0 < found.lower < 200 and not found.grows


def test_draws_are_uniform_over_the_papers_pool() -> None:
    """Chi-square over 64,000 draws of 64 rules; one call a draw of the plan alone."""
    from mixtailor.intake import receive

    rule, arrival = mt.MixTailor(mt.paper_pool(2)), receive(ROWS)
    counts = np.zeros(64)
    for _ in range(64_000):
        counts[rule.plan(arrival, Request(), 12).facts["place"]] += 1
    assert stats.chisquare(counts).pvalue > 1e-6


def test_only_the_drawn_rule_is_computed() -> None:
    calls = []

    def first(rows):
        calls.append("first")
        return rows[0]

    def second(rows):
        calls.append("second")
        return rows[1]

    result = mt.MixTailor([first, second]).aggregate(ROWS)
    assert len(calls) == 1
    assert np.array_equal(result.update, ROWS[["first", "second"].index(calls[0])])


def test_a_pool_is_whole_or_refuses() -> None:
    """No rule leaves it at a call: fewer updates than the most demanding rule needs are an error that names it."""
    rule = mt.MixTailor([mt.Krum(4), mt.Bulyan(4)])
    sentence = (
        r"needs at least 19 rows \(n >= 4f \+ 3, for Bulyan\(f=4\)\) and got 12\. Lower f, wait for more workers, or"
    )
    with pytest.raises(ValueError, match=sentence):
        rule(ROWS)
    assert rule.min_rows() == 19
    fitting = rule.fitting(12)
    assert fitting == mt.MixTailor([mt.Krum(4)]) and fitting.aggregate(ROWS).rule == mt.Krum(4)
    assert rule.fitting(19) is rule and rule.fitting(3) is rule, "a pool of which nothing is left says so at the call"
    uneven = mt.MixTailor([mt.Krum(4), mt.Comed(), mt.Bulyan(4)], [0.25, 0.25, 0.5])
    assert uneven.fitting(12).probabilities == (0.5, 0.5)
    never = mt.MixTailor([mt.Krum(4), mt.Bulyan(4)], [0.0, 1.0])
    assert never.fitting(12) is never, "what is left would never be drawn"


def test_a_pool_withstands_what_its_weakest_member_withstands() -> None:
    pool = mt.MixTailor([mt.Krum(3), mt.Comed(), mt.Krum(1)])
    assert pool.tolerates(12) == pool.declared_f() == 1
    assert mt.MixTailor([mt.Comed()]).declared_f() is None and mt.MixTailor([mt.Comed()]).tolerates(12) == 5
    assert set(mt.MixTailor([mt.Comed(), mt.CGE(1)]).missing_laws()) == {"translation"}


def test_what_a_drawn_rule_does_at_random_comes_from_the_same_source() -> None:
    """A source given with the call or with the mixture gives the draw first, then the key of what is drawn."""
    chain = mt.Bucketing(size=2) >> mt.TrimmedMean(1)
    drawn, other = mt.SeededEntropy(4), mt.SeededEntropy(4)
    drawn.index(None, 2)
    expected = chain(ROWS, entropy=drawn)
    assert not np.array_equal(expected, chain(ROWS, entropy=drawn)), "the buckets do move"
    assert np.array_equal(mt.MixTailor([chain, chain])(ROWS, entropy=other), expected)
    assert np.array_equal(mt.MixTailor([chain, chain], entropy=mt.SeededEntropy(4))(ROWS), expected)
    assert other.state()["counters"] == {"draw": 1, "preaggregation": 1}


def test_a_mixture_behind_a_preaggregation_is_drawn_with_the_call() -> None:
    """What was drawn is what was applied, with the pre-aggregation in front of it."""
    rule = mt.NNM(2) >> mt.MixTailor([mt.Krum(2), mt.Comed()])
    result = rule.aggregate(ROWS)
    assert result.rule == mt.NNM(2) >> (mt.Krum(2), mt.Comed())[result.facts["place"]]
    assert np.array_equal(result.update, result.rule(ROWS))


def test_a_mixture_inside_another_rule_says_what_it_drew() -> None:
    """Drawn from the call's own randomness, with the probabilities that were given."""
    inner = mt.MixTailor([mt.Comed(), mt.Mean(), mt.Krum(1)], [0.75, 0.25, 0.0])
    rule = mt.Bulyan(1, then=inner)
    found = {rule.aggregate(ROWS, entropy=mt.SeededEntropy(seed)).facts["drawn"] for seed in range(20)}
    assert found == {"Comed()", "Mean()"}


def test_rows_that_arrive_do_not_choose_the_pool() -> None:
    """Two NaN rows leave ten; Bulyan(f=2) needs eleven of them as received, and stays, with f lowered."""
    sent = ROWS.copy()
    sent[[3, 8]] = np.nan
    rule = mt.MixTailor([mt.Bulyan(2)])
    result = rule.aggregate(sent)
    assert {item.row for item in result.quarantined} == {3, 8}
    assert result.rule == mt.Bulyan(1)


def test_probabilities_are_kept_exactly() -> None:
    rule = mt.MixTailor([mt.Krum(1), mt.Comed(), mt.Bulyan(2)], [0.75, 0.25, 0.0], mt.SeededEntropy(3))
    places = [rule.aggregate(ROWS).facts["place"] for _ in range(2000)]
    assert abs(places.count(0) / 2000 - 0.75) < 0.05
    assert 2 not in places


@pytest.mark.parametrize(
    ("probabilities", "sentence"),
    [([0.5, 0.6], "sum"), ([0.5], "one number for each"), ([1.5, -0.5], "negative"), ([np.nan, 1.0], "finite")],
)
def test_bad_probabilities(probabilities: list[float], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        mt.MixTailor([mt.Comed(), mt.Mean()], probabilities)


def test_bad_pools() -> None:
    with pytest.raises(ValueError, match="MixTailor needs a pool of at least one rule and got an empty one"):
        mt.MixTailor([])
    for alone, kind in ((mt.Comed(), "Comed"), (3, "int"), (np.mean, "_ArrayFunctionDispatcher")):
        with pytest.raises(TypeError, match=f"needs a list of rules and got {kind}"):
            mt.MixTailor(alone)
    with pytest.raises(TypeError, match=r"Comed is a class. Make a rule of it: Comed\(\)\."):
        mt.MixTailor([mt.Comed])
    with pytest.raises(TypeError, match="SeededEntropy"):
        mt.MixTailor([mt.Comed()], entropy=0)


def test_shares_are_the_probabilities() -> None:
    """They do not depend on n, which only has to be enough."""
    rule = mt.MixTailor([mt.Krum(4), mt.Comed(), mt.Mean()], [0.5, 0.375, 0.125])
    assert rule.shares(12) == rule.shares(50) == (0.5, 0.375, 0.125)
    assert mt.MixTailor([mt.Krum(4), mt.Comed()]).shares(12) == (0.5, 0.5)
    with pytest.raises(ValueError, match="needs at least 11 rows"):
        rule.shares(10)
    with pytest.raises(ValueError, match="needs at least 11 rows"):
        mt.attacks.KnowsDraw.draw(mt.MixTailor([mt.Krum(4)], entropy=mt.SeededEntropy(0)), 10)


def test_the_coefficient_is_the_largest_of_what_may_be_drawn() -> None:
    """A rule without a coefficient takes it from the mixture."""
    krum, comed = mt.Krum(2).kappa(12, 2, 5), mt.Comed().kappa(12, 2, 5)
    assert krum is not None and comed is not None and krum != comed
    assert mt.MixTailor([mt.Krum(2), mt.Comed()]).kappa(12, 2, 5) == max(krum, comed)
    least = mt.Krum(2).kappa(7, 2, 5)
    assert mt.MixTailor([mt.Krum(2)]).kappa(7, 2, 5) == least is not None
    assert mt.MixTailor([mt.Comed(), mt.Mean()]).kappa(12, 2, 5) is None
    assert mt.MixTailor([mt.Bulyan(2)]).kappa(12, 2, 5) is None


def test_a_copy_with_another_f_draws_from_the_same_source(tmp_path) -> None:
    seeded = mt.MixTailor([mt.Krum(2), mt.Comed()], [0.75, 0.25], mt.SeededEntropy(3), release_after=9.0)
    assert seeded.with_f(1) == mt.MixTailor(
        [mt.Krum(1), mt.Comed()], [0.75, 0.25], mt.SeededEntropy(3), release_after=9.0
    )
    with mt.AuditTrail.start(tmp_path / "log", ["Comed()"]) as trail:
        audited = mt.MixTailor([mt.Comed()], audit=trail)
        assert audited.with_f(1).audit is trail
        with pytest.raises(ValueError, match="entropy= or audit=, not both"):
            mt.MixTailor([mt.Comed()], entropy=mt.SeededEntropy(3), audit=trail)


def test_repr_shows_what_matters(tmp_path) -> None:
    """Pools of up to six rules are written out."""
    six, shares = [mt.Comed()] * 6, [0.5, 0.5, 0.0, 0.0, 0.0, 0.0]
    shown = ", ".join(["Comed()"] * 6)
    assert repr(mt.MixTailor(six)) == f"MixTailor([{shown}])"
    assert repr(mt.MixTailor(six, shares)) == f"MixTailor([{shown}], probabilities={shares})"
    many = mt.MixTailor([*six, mt.Mean()], [*shares, 0.0])
    assert repr(many) == "MixTailor(<pool of 7 rules>, probabilities=...)"
    seeded = mt.MixTailor([mt.Mean()], entropy=mt.SeededEntropy(3))
    assert repr(seeded) == f"MixTailor([Mean()], entropy={mt.SeededEntropy(3)!r})"
    assert repr(mt.MixTailor([mt.Mean()], release_after=2.5)) == "MixTailor([Mean()], release_after=2.5)"
    with mt.AuditTrail.start(tmp_path / "log", ["Mean()"]) as trail:
        assert repr(mt.MixTailor([mt.Mean()], audit=trail)) == "MixTailor([Mean()], audit=...)"


def test_an_attacker_with_the_servers_seed_agrees_as_often_as_chance() -> None:
    """Streams are separate: the draws of purpose "attacker" are not those of the server."""
    server, attacker = mt.SeededEntropy(11), mt.SeededEntropy(11)
    agree = sum(server.index(None, 64) == attacker.index(None, 64, purpose="attacker") for _ in range(6400))
    assert 50 <= agree <= 160
    assert "experiments" in repr(server).lower()


def test_a_seeded_mixture_repeats() -> None:
    def run():
        rule = mt.MixTailor(mt.paper_pool(1), entropy=mt.SeededEntropy(5))
        return [rule.aggregate(ROWS).facts["place"] for _ in range(20)]

    assert run() == run()


def test_an_audited_mixture_verifies(tmp_path) -> None:
    """Draws come from the trail, a NaN worker is in the log, and a worker can prove that its row was."""
    pool = mt.paper_pool(1)
    workers = [f"worker {k}" for k in range(12)]
    with mt.AuditTrail.start(tmp_path / "log", pool) as trail:
        published = trail.commitment
        rule = mt.MixTailor(pool, audit=trail)
        places = []
        for round in range(5):
            sent = ROWS + round
            if round == 3:
                sent[2] = np.nan
            places.append(rule.aggregate(sent, workers=workers, round=round).facts["place"])
        receipt = trail.proof("worker 2")
    report = verify(tmp_path / "log", commitment=published, receipts=[receipt])
    assert report.ok, str(report)
    assert [draw.index for draw in report.draws] == places


def test_an_audited_rule_is_not_computed_on_fewer_rows_than_it_needs(tmp_path) -> None:
    """A trail that was told other needs than the rules have may draw one that n forbids: refused, not answered."""
    with mt.AuditTrail.start(tmp_path / "log", [mt.Krum(4), mt.Mean()], [1.0, 0.0], needs=[1, 1]) as trail:
        rule = mt.MixTailor([mt.Krum(4), mt.Mean()], [1.0, 0.0], audit=trail)
        with pytest.raises(ValueError, match="needs at least 11"):
            rule(ROWS[:5])


def test_audited_workers_have_different_names(tmp_path) -> None:
    with mt.AuditTrail.start(tmp_path / "log", [mt.Mean()]) as trail:
        rule = mt.MixTailor([mt.Mean()], audit=trail)
        with pytest.raises(ValueError, match="different name for each update"):
            rule(ROWS[:3], workers=["a", "b", "a"])


def test_rules_by_name() -> None:
    assert make_rule("krum", f=2, p=3) == mt.Krum(2, p=3)
    assert make_rule("nnm >> bucketing >> trimmed_mean", f=1, size=2) == mt.NNM(1) >> (
        mt.Bucketing(size=2) >> mt.TrimmedMean(1)
    )
    assert len(make_rule("paper_pool", f=2).rules) == 64
    assert find("MultiKrum") is mt.MultiKrum
    assert {"krum", "mixtailor", "comed"} <= set(names())
    with pytest.raises(ValueError, match="Did you mean 'krum'"):
        make_rule("krumm", f=2)
    with pytest.raises(ValueError, match="takes no parameter 'q'"):
        make_rule("krum", f=2, q=3)
    with pytest.raises(ValueError, match=r"takes no parameter 'powr'\. Did you mean 'power'"):
        make_rule("nnm >> krum", f=2, powr=1)
    with pytest.raises(ValueError, match="no pre-aggregation"):
        make_rule("nmm >> krum", f=2)


def test_rules_of_other_packages_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from importlib.metadata import EntryPoint

    from mixtailor.mixing import registry

    entry = EntryPoint("theirs", "mixtailor.rules:Medoid", registry.GROUP)
    monkeypatch.setattr("mixtailor._registry.entry_points", lambda group: [entry] if group == registry.GROUP else [])
    assert make_rule("theirs") == mt.Medoid()
    assert "theirs" in names()
