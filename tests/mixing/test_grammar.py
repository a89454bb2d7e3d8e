"""Rules as text: one grammar for the command line, TOML files and `make_rule`."""

import math
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mixtailor as mt
from mixtailor.mixing import registry
from mixtailor.mixing.grammar import parse, read_value, split
from mixtailor.mixing.registry import make_rule, names, own_rules
from mixtailor.preaggregation import Chain


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("krum", mt.Krum(2)),
        ("  Krum ( ) ", mt.Krum(2)),
        ("MultiKrum", mt.MultiKrum(2)),
        ("trimmed-mean", mt.TrimmedMean(2)),
        ("krum(1)", mt.Krum(1)),
        ("krum(1, p=3)", mt.Krum(1, p=3)),
        ("krum(p=inf, power=1,)", mt.Krum(2, p=math.inf, power=1)),
        ("geometric_median(tolerance=1e-3, limit=none)", mt.GeometricMedian(tolerance=1e-3)),
        ("nnm>>krum", mt.NNM(2) >> mt.Krum(2)),
        ("nnm(p=4) >> krum(p=3)", mt.NNM(2, p=4) >> mt.Krum(2, p=3)),
        ("nnm >> krum(f=1)", mt.NNM(1) >> mt.Krum(1)),
        ("nnm(1) >> krum", mt.NNM(1) >> mt.Krum(1)),
        ("nnm >> bucketing(size=3) >> comed", mt.NNM(2) >> (mt.Bucketing(size=3) >> mt.Comed())),
        ("bulyan(f=1, selection=comed)", mt.Bulyan(1, selection=mt.Comed())),
        ("bulyan(f=1, then=krum)", mt.Bulyan(1, then=mt.Krum(1))),
        ("bulyan(selection=nnm >> krum(p=3))", mt.Bulyan(2, selection=mt.NNM(2) >> mt.Krum(2, p=3))),
        ("bulyan(selection='nnm >> comed')", mt.Bulyan(2, selection=mt.NNM(2) >> mt.Comed())),
        ("subsampled(krum, 9)", mt.Subsampled(mt.Krum(2), 9)),
        ("mixtailor(krum, comed)", mt.MixTailor([mt.Krum(2), mt.Comed()])),
        ("mixtailor([krum, comed], probabilities=[0.25, 0.75])", mt.MixTailor([mt.Krum(2), mt.Comed()], [0.25, 0.75])),
        ("pool(rules=[krum, nnm >> comed])", mt.MixTailor([mt.Krum(2), mt.NNM(2) >> mt.Comed()])),
        ("mixtailor", mt.MixTailor(mt.default_pool(2))),
        ("paper_pool(without=[bulyan, 'krum'])", mt.MixTailor(mt.paper_pool(2, without=("bulyan", "krum")))),
        ("paper_pool(norms=[2, 3])", mt.MixTailor(mt.paper_pool(2, norms=(2, 3)))),
        ("default_pool(1)", mt.MixTailor(mt.default_pool(1))),
        ("nnm >> default_pool", mt.NNM(2) >> mt.MixTailor(mt.default_pool(2))),
    ],
)
def test_text(text, rule) -> None:
    """Names, parameters, chains, pools, and rules inside rules; f = 2 where the text gives none."""
    made = make_rule(text, f=2)
    assert made == rule and repr(made) == repr(rule)
    hash(made)


@pytest.mark.parametrize(
    ("table", "rule"),
    [
        ({"name": "krum", "p": 3, "label": "K"}, mt.Krum(2, p=3)),
        ({"name": "krum(p=3)", "power": 1}, mt.Krum(2, p=3, power=1)),
        ({"name": "nnm >> krum", "p": 3}, mt.NNM(2, p=3) >> mt.Krum(2, p=3)),
        ({"name": "nnm >> krum(p=5)", "p": 3}, mt.NNM(2, p=3) >> mt.Krum(2, p=5)),
        ({"name": "nnm >> krum", "f": 1}, mt.NNM(1) >> mt.Krum(1)),
        ({"name": "bulyan", "then": {"name": "krum", "p": 3}}, mt.Bulyan(2, then=mt.Krum(2, p=3))),
        ({"name": "bulyan", "f": 1, "then": "krum(p=3)"}, mt.Bulyan(1, then=mt.Krum(1, p=3))),
        ({"name": "pool", "rules": ["krum", {"name": "krum", "p": 3}]}, mt.MixTailor([mt.Krum(2), mt.Krum(2, p=3)])),
        ({"name": "mixtailor", "rules": ["comed", mt.Mean()]}, mt.MixTailor([mt.Comed(), mt.Mean()])),
        (mt.Comed(), mt.Comed()),
    ],
)
def test_tables(table, rule) -> None:
    """As TOML files have them: parameters beside the name are for every part that has them."""
    assert make_rule(table, f=2) == rule


def test_keywords_are_for_every_part_that_has_them() -> None:
    made = make_rule("nnm >> krum", f=2, p=3, power=1)
    assert made == mt.NNM(2, p=3) >> mt.Krum(2, p=3, power=1)
    declared = make_rule("resampling(repeats=2) >> krum", f=1, f_after="declared")
    assert isinstance(declared, Chain) and declared.f_after == "declared"
    assert make_rule("bulyan", f=1, selection=mt.Krum(1), then="comed") == mt.Bulyan(
        1, selection=mt.Krum(1), then=mt.Comed()
    )


def test_pools_know_n_and_their_source() -> None:
    """Also inside other rules; a pool of which n leaves nothing stays as it is, to say so when it is called."""
    source = mt.SeededEntropy(3)
    made = make_rule("nnm >> paper_pool", f=4, n=12, entropy=source)
    assert isinstance(made, Chain) and isinstance(made.rule, mt.MixTailor)
    assert len(made.rule.rules) == 48 and made.rule.entropy is source
    assert len(make_rule("paper_pool", f=4, n=9).rules) == 32, "comeds and geometric medians need 2f + 1"
    assert len(make_rule("paper_pool", f=4, n=8).rules) == 64, "with half of them Byzantine, no rule fits"
    assert len(make_rule("paper_pool(without=[comed, geometric_median])", f=4, n=2).rules) == 32
    assert len(make_rule("mixtailor(krum, bulyan)", f=4, n=12).rules) == 2, "rules of your choice are yours to choose"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "A rule needs a name, as in 'nnm >> krum(p=3)', and got ''."),
        ("krum p=3", "cannot be read from 'p=3' on: parameters go in parentheses. Write it as in 'nnm >> krum(p=3)'."),
        ("krum(p=3", "cannot be read to its end: a closing parenthesis or a comma is missing"),
        ("krum(p=3 power=1)", "from 'power=1)' on: a closing parenthesis or a comma is missing"),
        ("krum(p=3))", "from ')' on: there is a ')' too many"),
        ("krum(p=)", "from ')' on: a value is missing"),
        ("krum(3=p)", "from '3=p)' on: the name of a parameter is missing"),
        ("krum(p=3, p=4)", "from 'p=4)' on: p is given twice"),
        ("krum(p=3, 2)", "from '2)' on: a value without a name comes after one with a name"),
        ("krum(1, f=2)", "'krum' is given f twice."),
        ("nnm >> ", "to its end: the name of a rule is missing"),
        (">> krum", "from '>> krum' on: the name of a rule is missing"),
        ("krum; import os", "from '; import os' on: this is no part of a rule"),
        ("3", "from '3' on: the name of a rule is missing"),
        ("mixtailor([krum, comed)", "a closing bracket or a comma is missing"),
        ("bulyan(then=" * 30, "more than 20 rules are nested"),
        ("nnm >> " * 500 + "krum", "more than 20 rules stand behind one another"),
        ("krumm", "There is no rule 'krumm'. Did you mean 'krum'?"),
        ("bulyan(then=krumm)", "There is no rule 'krumm'. Did you mean 'krum'?"),
        ("nmm >> krum", "There is no pre-aggregation 'nmm'. Did you mean 'nnm'?"),
        ("nnm", "'nnm' is a pre-aggregation and needs a rule behind it. Write 'nnm >> krum'."),
        ("krum >> comed", "'krum' is a rule, and rules come last."),
        ("krum(q=3)", "'krum' takes no parameter 'q'. Known are f, p, power."),
        ("nnm(pp=3) >> krum", "'nnm' takes no parameter 'pp'. Did you mean 'p'?"),
        ("krum(1, 2, 3)", "'krum' takes 1 values without a name and got 3. Known are f, p, power."),
        ("centered_clipping", "'centered_clipping' needs tau. Write 'centered_clipping(tau=...)'."),
        ("pool", "'pool' needs rules."),
    ],
)
def test_errors_say_what_to_write(text, sentence) -> None:
    with pytest.raises(ValueError) as refusal:
        make_rule(text, f=2)
    assert sentence in str(refusal.value)


def test_f_is_asked_for() -> None:
    with pytest.raises(ValueError, match=r"'krum' needs f\. Write 'krum\(f=2\)', or give f=2 beside it"):
        make_rule("krum")
    assert make_rule("comed") == mt.Comed() and make_rule("comed", f=3) == mt.Comed(), "who has no f needs none"


def test_wrong_forms() -> None:
    with pytest.raises(ValueError, match=r"A table needs a name, as in {name = 'krum'}, and got {'p': 3}"):
        make_rule({"p": 3}, f=2)
    with pytest.raises(ValueError, match=r"Comed\(\) is a rule already and takes no parameter 'p'"):
        make_rule(mt.Comed(), p=3)
    with pytest.raises(TypeError, match="neither"):
        make_rule(3)
    with pytest.raises(ValueError, match=r"'nnm >> krum' takes no parameter 'powr'\. Did you mean 'power'"):
        make_rule("nnm >> krum", f=2, powr=1)
    with pytest.raises(ValueError, match="'krum' takes no parameter 'f_after'"):
        make_rule({"name": "krum", "f_after": "declared"}, f=2)


@pytest.mark.parametrize("name", sorted(names()))
def test_every_name_can_be_written(name) -> None:
    """With nothing but what it requires."""
    required = {
        "centered_clipping": "tau=1.0",
        "subsampled": "rule=comed, k=3",
        "sketched": "rule=krum, sketch=64",
        "tree": "branches=3, inner=comed, outer=comed",
        "pool": "rules=[comed]",
        "memory": "rule=krum",
        "bounded": "rule=comed",
        "guarded": "rule=comed",
    }
    made = make_rule(f"{name}({required.get(name, '')})", f=1)
    kinds = {**own_rules(), "memory": mt.Memory, "recommended": mt.Memory, "guarded": mt.Guarded}
    assert isinstance(made, kinds.get(name, mt.MixTailor))


def test_rules_of_other_packages_take_parameters(monkeypatch) -> None:
    """Classes and functions, with parameters that are rules where their annotation says so."""
    entries = [
        EntryPoint("theirs", "mixtailor.rules:Bulyan", registry.GROUP),
        EntryPoint("any-of", "mixing.test_grammar:anything", registry.GROUP),
        EntryPoint("plainly", "mixing.test_grammar:plainly", registry.GROUP),
        EntryPoint("nothing", "mixing.test_grammar:nothing", registry.GROUP),
    ]
    monkeypatch.setattr("mixtailor._registry.entry_points", lambda group: entries if group == registry.GROUP else [])
    assert make_rule("nnm >> theirs(then=comed, p=3)", f=1) == mt.NNM(1) >> mt.Bulyan(1, then=mt.Comed(), p=3)
    assert make_rule("any-of(comed, name=krum, q=3)") == mt.Bulyan(3, selection=mt.Comed(), p=4)
    rule = make_rule("plainly(share=0.5)", f=1)
    assert repr(rule) == "Plain(plainly, share=0.5, f=1)" and rule(np.eye(3)).tolist() == [0.0, 0.5, 0.0]
    with pytest.raises(ValueError, match=r"annotated: -> Rule"):
        make_rule("nothing")


def anything(inner: "mt.Rule", name: str = "", **options: int) -> mt.Rule:
    assert name == "krum"
    return mt.Bulyan(options["q"], selection=inner, p=4)


def plainly(rows, f, share=1.0):
    return share * rows[f]


def nothing():
    raise AssertionError("called to see what it is")


@given(st.text(alphabet="krum nnm>()[],=3.'x-", max_size=30))
def test_any_text_is_read_or_refused(text) -> None:
    """With a sentence, and never with another error."""
    sentence = "nnm >> krum"
    try:
        parse(text)
    except ValueError as refusal:
        sentence = str(refusal)
    assert "nnm >> krum" in sentence


@given(st.one_of(st.integers(), st.floats(allow_nan=False), st.booleans(), st.none()))
def test_values_are_read_as_they_are_written(value) -> None:
    found = read_value(str(value))
    assert found == value and type(found) is type(value)


def test_values_and_lists() -> None:
    assert read_value("[1, 2.5, x, [y]]") == [1, 2.5, "x", ["y"]] and read_value("'a, b'") == "a, b"
    pool = make_rule("pool", f=2, rules=read_value("[krum(p=3), comed]"))
    assert pool == mt.MixTailor([mt.Krum(2, p=3), mt.Comed()])
    assert [read_value(text) for text in ("sum/f", "declared", "nnm >> krum", "3x")] == [
        "sum/f", "declared", "nnm >> krum", "3x",
    ]  # fmt: skip
    assert split("a(b, [c, d]), e") == ["a(b, [c, d])", "e"] and split("krum") == ["krum"]
