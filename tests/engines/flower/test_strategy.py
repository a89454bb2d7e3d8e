"""The strategy: any rule on differences, what is refused and what is told."""

import math
import random
import warnings

import numpy as np
import pytest
from engines.flower.rounds import (
    NODES,
    OWN,
    LocalGrid,
    arrays_of,
    asked,
    differences,
    flat,
    honest,
    logged,
    model,
    moved,
    played,
    record,
    reply,
    trained,
)
from flwr.app import ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict

import mixtailor as mt
from mixtailor.engines.flower import RobustStrategy
from mixtailor.engines.rehearsal import rehearse
from mixtailor.mixing import mixtailor as mixtailor_module

RULES = [
    mt.Krum(f=2),
    mt.Comed(),
    mt.TrimmedMean(f=2),
    mt.NNM(f=2) >> mt.GeometricMedian(),
    mt.CGE(f=2),
    mt.SignVote(),
    lambda rows: np.median(rows, axis=0),
]


@pytest.mark.parametrize("rule", RULES, ids=[str(rule) if isinstance(rule, mt.Rule) else "plain" for rule in RULES])
def test_any_rule_aggregates_the_differences(rule):
    """The model moves by what the rule makes of the differences, whether or not the rule moves with its rows."""
    arrays, metrics, replies = played(RobustStrategy(rule))
    expected = (rule if isinstance(rule, mt.Rule) else mt.MixTailor([rule]))(differences(replies, OWN))
    np.testing.assert_allclose(moved(arrays), expected, atol=3e-7)
    assert metrics["mixtailor-skipped"] == 0 and metrics["mixtailor-quarantined"] == []


def test_types_and_order_are_those_of_the_model():
    """Integer buffers keep their type, and are the lower median; truth values too; names keep their order."""
    own = {**model(dtype=np.float64), "half": np.linspace(0, 1, 6, dtype=np.float16)}
    messages = asked(strategy := RobustStrategy(mt.Comed()), own)
    arrays, _ = strategy.aggregate_train(1, list(honest(messages, own).values()))
    assert list(arrays) == list(own)
    found = arrays_of(arrays)
    assert {name: values.dtype for name, values in found.items()} == {name: own[name].dtype for name in own}
    assert {name: array.dtype for name, array in arrays.items()} == {name: str(own[name].dtype) for name in own}
    assert found["norm.count"] == 8 and found["norm.count"].shape == ()
    assert found["norm.flags"].tolist() == [True, False]


def test_one_client_cannot_set_a_counter():
    def spoil(messages, replies):
        replies[11] = reply(messages[11], {**trained(OWN, 11), "norm.count": np.array(2**62)})
        return replies

    assert played(RobustStrategy(mt.Krum(f=2)), spoil)[0]["norm.count"] == 8


def test_clients_that_send_updates():
    """With sends="updates", a reply is the difference itself."""
    strategy = RobustStrategy(mt.Krum(f=2), sends="updates")
    messages = asked(strategy, OWN)
    rows = {
        node: {n: (v - OWN[n] if v.dtype.kind == "f" else v) for n, v in trained(OWN, node).items()}
        for node in messages
    }
    arrays, metrics = strategy.aggregate_train(1, [reply(messages[node], rows[node]) for node in messages])
    chosen = rows[metrics["mixtailor-selected"][0]]
    np.testing.assert_array_equal(arrays_of(arrays)["fc.bias"], OWN["fc.bias"] + chosen["fc.bias"])


def test_learning_rate_and_momentum():
    """v <- mu v + aggregate and w <- w + eta v, over two rounds; another model starts without momentum."""
    strategy = RobustStrategy(mt.Mean(), learning_rate=0.5, momentum=0.9)
    first, _, replies = played(strategy)
    velocity = differences(replies, OWN).mean(axis=0)
    np.testing.assert_allclose(moved(first), 0.5 * velocity, atol=3e-7)
    second, _, replies = played(strategy, own=first, server_round=2)
    velocity = 0.9 * velocity + differences(replies, first).mean(axis=0)
    np.testing.assert_allclose(moved(second, first), 0.5 * velocity, atol=3e-7)
    smaller = {"fc.bias": OWN["fc.bias"]}
    third, _, replies = played(strategy, own=smaller, server_round=3)
    np.testing.assert_allclose(moved(third, smaller), 0.5 * differences(replies, smaller).mean(axis=0), atol=3e-7)


def test_claimed_examples_count_only_where_the_user_says_so_and_are_capped():
    """With a cap, claims are weights, and nobody has more than the cap of them."""
    claims = dict(zip(NODES, [1, 2, 3, 4, 5, 6, 7, 8, 1e6], strict=True))

    def spoil(messages, _replies):
        return {n: reply(messages[n], trained(OWN, n), **{"num-examples": claims[n]}) for n in messages}

    arrays, _, replies = played(RobustStrategy(mt.Mean()), spoil)
    rows = differences(replies, OWN)
    np.testing.assert_allclose(moved(arrays), rows.mean(axis=0), atol=3e-7)
    arrays, _, replies = played(RobustStrategy(mt.Mean(), examples_cap=0.4), spoil)
    weights = np.array([claims[node] for node in replies])
    shares = np.where(weights > 10, 0.4, 0.6 * weights / 36)
    np.testing.assert_allclose(moved(arrays), shares @ differences(replies, OWN), atol=3e-7)


@pytest.mark.parametrize("claim", [1e6, 1e9, 0.0])
def test_two_of_eleven_that_lie_about_their_examples_do_not_freeze_training(claim):
    """Honest clients moved by 1 and claim 100 each; two others moved the other way."""
    grid, own = LocalGrid(range(1, 12)), {"w": np.zeros(3, np.float32)}
    strategy = RobustStrategy(mt.Comed(), examples_cap=0.2, byzantine=2)
    messages = asked(strategy, own, grid=grid)
    replies = [
        reply(
            message,
            {"w": np.full(3, -1 if node < 3 else 1, np.float32)},
            **{"num-examples": claim if node < 3 else 100},
        )
        for node, message in messages.items()
    ]
    arrays, _ = strategy.aggregate_train(1, replies)
    np.testing.assert_allclose(arrays_of(arrays)["w"], 1.0)


@pytest.mark.parametrize("claim", [0, 100])
def test_equal_claims_change_nothing(claim):
    """Nor do claims of nothing, which say nothing; a cap that so few clients cannot keep to is raised to 1/n."""

    def spoil(messages, _replies):
        return {n: reply(messages[n], trained(OWN, n), **{"num-examples": claim}) for n in messages}

    plain, _, _ = played(RobustStrategy(mt.Mean()), spoil)
    arrays, _, _ = played(RobustStrategy(mt.Mean(), examples_cap=0.01), spoil)
    np.testing.assert_array_equal(moved(arrays), moved(plain))


def test_recommended_counts_clients_by_their_claims():
    """Claims reach the rules inside a memory: weights of clients follow them, up to the cap."""
    claims = dict(zip(NODES, [10, 10, 10, 10, 10, 10, 10, 30, 1e6], strict=True))

    def spoil(messages, _replies):
        return {n: reply(messages[n], trained(OWN, n), **{"num-examples": claims[n]}) for n in messages}

    for place in range(2):
        pool = [mt.Memory(mt.recommended(2).rule.rules[place], key=1) for _ in range(2)]
        plain, _, _ = played(RobustStrategy(pool[0]), spoil)
        strategy = RobustStrategy(pool[1], examples_cap=0.2)
        arrays, metrics, _ = played(strategy, spoil)
        assert metrics["mixtailor-skipped"] == 0 and not np.array_equal(moved(arrays), moved(plain))


@pytest.mark.parametrize(
    ("rule", "options", "said"),
    [
        (mt.Bulyan(f=1), {"examples_cap": 0.1}, r"Bulyan\(f=1.* has no form with weights. Mean, Comed"),
        (mt.recommended(2), {"examples_cap": 0.25}, r"needs examples_cap < 1/\(2f\) = 0.25"),
        (mt.Comed(), {"examples_cap": 0.2, "byzantine": 3}, r"needs examples_cap < 1/\(2f\) = 0.1667"),
    ],
    ids=str,
)
def test_claims_that_cannot_count_are_refused_at_once(rule, options, said):
    with pytest.raises(ValueError, match=said):
        RobustStrategy(rule, **options)


def test_a_cap_that_a_rule_cannot_bear_is_refused_before_a_model_is_sent():
    """Krum needs a share of at most (1 - 3/n)/2: two of nine clients at a cap of 0.2 may have more."""
    with pytest.raises(ValueError, match=r"Krum\(f=2\) needs share <= \(1 - 3/n\) / 2"):
        asked(RobustStrategy(mt.Krum(f=2), examples_cap=0.2), OWN)


def test_where_claims_count_a_client_without_one_is_at_fault():
    def spoil(messages, replies):
        content = RecordDict({"arrays": replies[33].content["arrays"]})
        return {**replies, 33: Message(content, reply_to=messages[33])}

    assert played(RobustStrategy(mt.Krum(f=2)), spoil)[1]["mixtailor-quarantined"] == []
    assert played(RobustStrategy(mt.Krum(f=2), examples_cap=0.12), spoil)[1]["mixtailor-quarantined"] == [33]


def test_the_drawn_rule_is_in_the_metrics_by_its_place_and_in_the_log_by_its_name():
    pool = [mt.Krum(f=2), mt.Comed(), mt.TrimmedMean(f=2)]
    seen = set()
    for _ in range(20):
        with logged() as lines:
            _, metrics, _ = played(RobustStrategy(mt.MixTailor(pool)))
        place = metrics["mixtailor-rule"]
        assert any(f"{pool[place]!r} on 9 clients" in line for line in lines)
        assert bool(metrics["mixtailor-selected"]) == (place == 0)
        seen.add(place)
    assert len(seen) > 1  # all equal by chance: 3 times in 3^20


def test_nothing_comes_from_a_seeded_generator(monkeypatch):
    """Programs seed Python's and numpy's generators; neither the sample nor the draw may come from them."""

    def nobody(nodes, k):
        assert k == 0
        return []

    monkeypatch.setattr(random, "sample", nobody)
    monkeypatch.setattr(np.random, "default_rng", None)
    strategy = RobustStrategy(mt.MixTailor([mt.NNM(f=1) >> mt.Comed(), mt.Bucketing(size=2) >> mt.Comed()]))
    messages = asked(strategy, OWN)
    monkeypatch.undo()
    replies = honest(messages, OWN)
    monkeypatch.setattr(np.random, "default_rng", None)
    assert strategy.aggregate_train(1, list(replies.values()))[1]["mixtailor-skipped"] == 0


@pytest.mark.parametrize("where", ["given", "overridden", "sent"])
def test_a_seed_that_clients_can_read_is_refused(where):
    config = {"num-rounds": 3, "random-seed": 7}
    given = config if where == "given" else {}
    grid = LocalGrid(config=config if where == "overridden" else {})
    sent = config if where == "sent" else {}
    with pytest.raises(ValueError, match=r"holds a seed, 'random-seed', and every client can read it"):
        asked(RobustStrategy(mt.Comed(), run_config=given), OWN, grid=grid, **sent)
    RobustStrategy(mt.Comed(), run_config=config, public_seeds=["random-seed"])


def test_a_rule_that_draws_from_a_seed_is_told_of():
    with logged() as lines:
        RobustStrategy(mt.NNM(f=1) >> mt.MixTailor([mt.Comed()], entropy=mt.SeededEntropy(1)))
    assert any("for experiments only" in line for line in lines)


def test_sampling_warns_where_f_is_too_low():
    """A tenth of a hundred clients: f of the sample is the average, and the tail asks for more."""
    grid = LocalGrid(range(100))
    with logged() as lines:
        strategy = RobustStrategy(mt.Krum(f=1), fraction_train=0.1)
        assert len(asked(strategy, OWN, grid=grid)) == 10
        asked(strategy, OWN, grid=grid)
    said = [line for line in lines if "f_for_sampling" in line]
    assert len(said) == 1 and "With 10 of 100 clients Byzantine and 10 sampled" in said[0]
    assert "f = 6 would keep that below 1e-06" in said[0]
    for options in ({"byzantine": 1}, {"fraction_train": 1.0}):
        with logged() as lines:
            asked(RobustStrategy(mt.Krum(f=1), **{"fraction_train": 0.1, **options}), OWN, grid=grid)
        assert not [line for line in lines if "f_for_sampling" in line]


def test_a_round_waits_for_as_many_clients_as_the_rule_needs():
    assert RobustStrategy(mt.Krum(f=3)).min_train_nodes == 9
    assert RobustStrategy(mt.Krum(f=3), min_train_nodes=12).min_train_nodes == 12


def test_client_metrics_are_medians():
    """A client that claims a loss of 1e30 and a million examples moves nothing; rare and mixed metrics are left out."""

    def spoil(messages, replies):
        for node in NODES[:4]:
            replies[node] = reply(messages[node], trained(OWN, node), loss=1e30, rare=1.0, **{"num-examples": 1e6})
        replies[99] = reply(messages[99], trained(OWN, 99), loss=[1.0], curve=[1.0, 2.0])
        return replies

    _, metrics, _ = played(RobustStrategy(mt.Comed()), spoil)
    assert metrics["loss"] == 0.5 and not {"rare", "curve", "num-examples"} & set(metrics)


def test_metrics_of_the_users_own_do_not_stop_aplayed():
    """Flower's own average fails on metrics that differ; the round goes on without them."""

    def fails(contents, key):
        raise KeyError("accuracy")

    with logged() as lines:
        _, metrics, _ = played(RobustStrategy(mt.Comed(), train_metrics_aggr_fn=fails))
    assert metrics["mixtailor-skipped"] == 0 and "loss" not in metrics
    assert any("could not be aggregated (KeyError" in line for line in lines)


def evaluated(strategy):
    return list(strategy.configure_evaluate(1, record(OWN), ConfigRecord(), LocalGrid()))


def test_evaluation_survives_broken_replies():
    messages = evaluated(strategy := RobustStrategy(mt.Comed()))
    good = [reply(message, {}, accuracy=0.9) for message in messages[:5]]
    bad = [
        Message(Error(code=1, reason=None), reply_to=messages[5]),
        Message(RecordDict(), reply_to=messages[6]),
        Message(RecordDict({"m": MetricRecord({"accuracy": float("nan"), "x": [1]})}), reply_to=messages[7]),
        None,
        "not a message",
    ]
    assert strategy.aggregate_evaluate(1, [*bad, *good]) == {"loss": 0.5, "accuracy": 0.9}
    assert strategy.aggregate_evaluate(1, bad[:1]) is None


def test_in_evaluation_a_client_has_one_say_and_only_if_it_was_asked():
    """One client that replies a hundred times decided every median; a client that was not asked, too."""
    messages = evaluated(strategy := RobustStrategy(mt.Comed()))
    good = [reply(message, {}, accuracy=0.9) for message in messages[:8]]
    many = [reply(messages[8], {}, accuracy=1e9) for _ in range(100)]
    foreign = Message(RecordDict({"metrics": MetricRecord({"accuracy": 1e9})}), dst_node_id=1, message_type="evaluate")
    assert strategy.aggregate_evaluate(1, [*good, *many, *[foreign] * 100])["accuracy"] == 0.9


def test_rules_that_need_something_to_trust_get_it():
    """FLTrust compares with what the server's own data say, given as a client's reply would be."""
    own_row = trained(OWN, 1234)
    strategy = RobustStrategy(mt.FLTrust(), reference=lambda server_round, arrays: record(own_row))
    arrays, _, replies = played(strategy)
    reference = flat({name: own_row[name].astype(np.float64) - OWN[name] for name in OWN}, OWN)
    np.testing.assert_allclose(moved(arrays), mt.FLTrust()(differences(replies, OWN), reference=reference), atol=1e-6)
    with pytest.raises(ValueError, match="reference"):
        played(RobustStrategy(mt.FLTrust()))
    with pytest.raises(ValueError, match=r"The reference needs the arrays of the model, and is without conv\.weight"):
        played(RobustStrategy(mt.FLTrust(), reference=lambda server_round, arrays: ArrayRecord()))


@pytest.mark.parametrize("error", [ArithmeticError, RuntimeError, TypeError, IndexError, MemoryError])
def test_a_rule_that_fails_on_what_clients_sent_does_not_stop_the_run(error):
    """Whatever it raises; in the round after, it is as if nothing had happened."""

    def fails(rows):
        if rows.max() > 1e6:
            raise error("no solution")
        return np.median(rows, axis=0)

    def spoil(messages, replies):
        return {**replies, 11: reply(messages[11], {**OWN, "fc.bias": np.full(5, 1e7, np.float32)})}

    strategy = RobustStrategy(mt.MixTailor([fails]))
    with logged() as lines:
        arrays, metrics, _ = played(strategy, spoil)
    assert metrics["mixtailor-skipped"] == 1 and not moved(arrays).any()
    assert any(f"failed on what clients sent ({error.__name__}: no solution)" in line for line in lines)
    assert played(strategy, server_round=2)[1]["mixtailor-skipped"] == 0


def test_mistakes_of_the_server_are_raised_before_a_model_is_sent():
    """A rule that fails on harmless updates fails always: the run must not go on without a step for ever."""

    def fails(rows):
        raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        asked(RobustStrategy(mt.MixTailor([mt.Comed(), mt.NNM(f=1) >> fails])), OWN)
    with pytest.raises(ValueError, match="needs the server's own update"):
        asked(RobustStrategy(mt.FLTrust()), OWN)


def test_a_journal_gets_every_round(tmp_path):
    """Who was asked, what was drawn, who was quarantined: what `mixtailor watch` shows of a Flower server."""
    from mixtailor.experiments import Results
    from mixtailor.trackers import Journal

    played(RobustStrategy(mt.Comed(), tracker=Journal(tmp_path)))
    told = Results.load(tmp_path).index["server"]
    assert told["rounds"] == 1 and told["drawn"] == {"Comed()": 1} and len(told["workers"]) > 2


def test_a_tracker_that_fails_does_not_stop_the_run():
    class Full:
        def log(self, step, values):
            raise OSError("no space left on device")

    with logged() as lines:
        assert played(RobustStrategy(mt.Comed(), tracker=Full()))[1]["mixtailor-skipped"] == 0
    assert any("The tracker failed (OSError: no space left" in line for line in lines)


@pytest.mark.parametrize("rule", [mt.SMEA(f=5, budget=20), mt.MDA(f=12, budget=100)], ids=repr)
def test_a_spent_search_is_in_the_metrics_and_stops_nothing(rule):
    """Gaussian replies of f clients make a search long: a step is taken all the same, and by a rule of the pool."""
    grid, own = LocalGrid(range(1, 31)), {"w": np.zeros(20, np.float32)}
    strategy = RobustStrategy(mt.MixTailor([rule]))
    messages = asked(strategy, own, grid=grid)
    rng = np.random.default_rng(0)
    replies = [reply(sent, {"w": rng.normal(size=20).astype(np.float32)}) for sent in messages.values()]
    with logged() as lines:
        _, metrics = strategy.aggregate_train(1, replies)
    assert metrics["mixtailor-fallback"] == 1 and metrics["mixtailor-rule"] == 0 and metrics["mixtailor-skipped"] == 0
    assert any("the search spent its budget" in line for line in lines)
    assert played(RobustStrategy(mt.Comed()))[1]["mixtailor-fallback"] == 0


def test_a_model_that_would_overflow_is_not_taken():
    """The mean is not robust: finite replies can still make a model that is not."""
    huge = {**OWN, "fc.bias": np.full(5, 3e38, np.float32)}
    strategy = RobustStrategy(mt.Mean(), learning_rate=10.0, momentum=0.5)
    arrays, metrics, _ = played(strategy, lambda messages, _: {n: reply(messages[n], huge) for n in messages})
    assert metrics["mixtailor-skipped"] == 1 and strategy.steps.moments == {}
    np.testing.assert_array_equal(arrays["fc.bias"], OWN["fc.bias"])


def test_the_model_itself_must_be_sound():
    for own, said in (
        ({"a": np.array([1.0, np.nan])}, "a holds NaN or infinity"),
        ({"a": np.array([1, 2])}, "at least one array of real numbers"),
        ({"a": np.zeros(2, np.complex64)}, "a is of complex numbers"),
    ):
        with pytest.raises(ValueError, match=said):
            asked(RobustStrategy(mt.Comed()), own)
    with pytest.raises(ValueError, match="nothing was sent yet"):
        RobustStrategy(mt.Comed()).aggregate_train(1, [])


@pytest.mark.parametrize(
    "options",
    [
        {"sends": "gradients"},
        {"learning_rate": 0.0},
        {"momentum": 1.5},
        {"dropouts": -1},
        {"byzantine": 0.1},
        {"examples_cap": -5},
        {"examples_cap": 4},
        {"examples_cap": math.nan},
        {"most_examples": 0},
    ],
    ids=str,
)
def test_wrong_arguments_are_refused_at_once(options):
    with pytest.raises((ValueError, TypeError), match=f"RobustStrategy needs {next(iter(options))}"):
        RobustStrategy(mt.Comed(), **options)


def test_no_training_at_all():
    """fraction_train = 0 is evaluation only, as with every strategy of Flower."""
    strategy = RobustStrategy(mt.Comed(), fraction_train=0.0)
    assert not asked(strategy, OWN) and strategy.aggregate_train(1, []) == (None, None)


class Notes:
    def __init__(self):
        self.lines = []

    def log(self, step, values):
        self.lines.append((step, dict(values)))


def test_whole_runs_are_tracked_and_return_the_model():
    """`start` as Flower calls it: training, evaluation of clients and of the server, all told to the tracker."""

    def answer(message):
        sent = arrays_of(message.content["arrays"])
        if message.metadata.message_type == "evaluate":
            return reply(message, {}, accuracy=0.7)
        return reply(message, trained(sent, message.metadata.dst_node_id))

    notes = Notes()
    strategy = RobustStrategy(mt.MixTailor(mt.default_pool(f=1)), tracker=notes)
    result = strategy.start(
        LocalGrid(answer=answer),
        record(OWN),
        num_rounds=2,
        train_config=ConfigRecord({"lr": 0.1}),
        evaluate_fn=lambda server_round, arrays: MetricRecord({"error": 0.5 / (1 + server_round)}),
    )
    assert arrays_of(result.arrays)["norm.count"] == 9
    assert [step for step, _ in notes.lines] == [0, 1, 1, 1, 2, 2, 2]
    assert notes.lines[0][1] == {"server/error": 0.5}
    assert notes.lines[1][1]["train/loss"] == 0.5 and notes.lines[1][1]["train/mixtailor-quarantined"] == 0.0
    assert notes.lines[2][1] == {"evaluate/loss": 0.5, "evaluate/accuracy": 0.7}


def test_a_run_in_which_every_round_is_skipped_ends_with_the_model_as_it_was():
    result = RobustStrategy(mt.Krum(f=1)).start(LocalGrid(answer=lambda message: None), record(OWN), num_rounds=2)
    np.testing.assert_array_equal(arrays_of(result.arrays)["fc.bias"], OWN["fc.bias"])


def test_a_rule_without_a_bound_is_told_of_once(monkeypatch):
    """When the strategy is made, by the rule's name."""
    monkeypatch.setattr(mixtailor_module, "_told", set())
    with pytest.warns(mt.NotRobustWarning, match=r"This rule has no bound, .*: Mean\(\)\. Use default_pool"):
        RobustStrategy(mt.Mean())
    with warnings.catch_warnings():
        warnings.simplefilter("error", mt.NotRobustWarning)
        RobustStrategy(mt.Mean())
        RobustStrategy(mt.MixTailor(mt.default_pool(2)))


def test_more_byzantine_clients_than_the_rule_tolerates():
    """All clients are asked: a round waits for enough of them, one with too few changes nothing, and a rule that no
    number of clients lets tolerate as many is refused at once."""
    strategy = RobustStrategy(mt.Comed(), byzantine=5)
    assert strategy.min_train_nodes == strategy.min_available_nodes == 11
    with pytest.raises(ValueError, match=r"Krum\(f=2\) tolerates 2 Byzantine updates, and f = 5\. More updates"):
        RobustStrategy(mt.Krum(f=2), byzantine=5)
    leaving = RobustStrategy(mt.Comed(), byzantine=5)
    leaving.min_train_nodes = leaving.min_available_nodes = 2  # as if two of eleven clients had left
    with logged() as lines:
        arrays, metrics, _ = played(leaving)
    assert metrics["mixtailor-skipped"] == 1 and not moved(arrays).any()
    assert any("Comed() tolerates 4 of 9 clients, and byzantine = 5." in line for line in lines)
    assert played(RobustStrategy(mt.Comed(), byzantine=4))[1]["mixtailor-skipped"] == 0
    assert RobustStrategy(mt.Comed(), byzantine=5, fraction_train=0.5).min_train_nodes == 2, "it is for the warning"


@pytest.mark.parametrize(
    ("rule", "options", "sentence"),
    [
        (mt.Comed(), {"byzantine": 5, "min_train_nodes": 8}, r">= 11, .* \(n >= 2f \+ 1\), to tolerate byzantine = 5"),
        (mt.Krum(f=3), {"min_train_nodes": 8}, r">= 9, .* Krum\(f=3\) needs \(n >= 2f \+ 3\), and got 8"),
        (mt.Krum(f=3), {"min_train_nodes": 8, "fraction_train": 0.5}, r"min_train_nodes >= 9"),
        (mt.NNM(2) >> mt.Comed(), {"min_train_nodes": 4}, r"min_train_nodes >= 5, .* \(n >= 2f \+ 1\), and got 4"),
        (mt.recommended(f=4), {"min_train_nodes": 8}, r"min_train_nodes >= 9"),
    ],
    ids=repr,
)
def test_rounds_that_could_start_and_never_aggregate_are_refused(rule, options, sentence):
    """Such a run would wait for clients, train them, and leave the model as it was in every round."""
    with pytest.raises(ValueError, match=sentence):
        RobustStrategy(rule, **options)
    RobustStrategy(rule, **{**options, "min_train_nodes": 11})
    RobustStrategy(rule, **{**options, "min_train_nodes": 1, "fraction_train": 0.0})


def test_a_silent_client_does_not_choose_the_pool():
    """Seven clients allow Bulyan(f=1), six do not: with one excused silent client the round changes nothing."""
    pool = mt.MixTailor([mt.Comed(), mt.Krum(f=1), mt.Bulyan(f=1)])
    assert RobustStrategy(pool, dropouts=1).min_train_nodes == 8, "a round waits for those who may stay silent, too"
    fewer = {"min_train_nodes": 7, "min_available_nodes": 7}
    for _ in range(5):
        strategy = RobustStrategy(pool, dropouts=1, **fewer)
        grid = LocalGrid(NODES[:7])
        _, metrics, _ = played(strategy, lambda _, replies: dict(list(replies.items())[1:]), grid=grid)
        assert metrics["mixtailor-skipped"] == 1 and metrics["mixtailor-rule"] == -1


def test_a_memory_tells_clients_apart_by_their_node():
    """Node 22 pushes steadily: after some rounds it has no weight, and the rehearsal taught the memory nothing."""

    def answer(message):
        sent = arrays_of(message.content["arrays"])
        if message.metadata.message_type == "evaluate":
            return reply(message, {}, accuracy=0.7)
        node, noise = message.metadata.dst_node_id, np.random.default_rng(len(told))
        told.append(message.metadata.dst_node_id)
        changed = {
            name: values
            + (np.full(values.shape, 0.1) if node == 22 else noise.normal(size=values.shape) * 0.1).astype(values.dtype)
            if values.dtype.kind == "f" and values.ndim
            else values
            for name, values in sent.items()
        }
        return reply(message, changed)

    told = []
    memory = mt.recommended(f=1)
    strategy = RobustStrategy(memory, fraction_evaluate=0.0)
    strategy.start(LocalGrid(answer=answer), record(OWN), num_rounds=30)
    assert set(memory) == {str(node) for node in set(told)}
    assert memory.suspects() == ["22"]


@pytest.mark.parametrize("guarded", [False, True])
def test_a_run_goes_on_with_the_memory_of_an_earlier_one(tmp_path, guarded):
    """A client that leaves out a layer in one round is quarantined in that round alone; a restart changes nothing."""

    def fewer(messages, replies):
        arrays = trained(OWN, 33)
        del arrays["fc.bias"]
        return {**replies, 33: reply(messages[33], arrays)}

    def rule():
        made = mt.Memory(mt.ViewFilter(f=2))
        return mt.Guarded(made) if guarded else made

    before = RobustStrategy(rule())
    quarantined = [played(before, fewer if r == 3 else None, server_round=r)[1] for r in range(1, 6)]
    assert [list(metrics["mixtailor-quarantined"]) for metrics in quarantined] == [[], [], [33], [], []]
    before.rule.save(tmp_path / "memory")
    restored = rule()
    restored.load(tmp_path / "memory")
    memory = restored.rule if guarded else restored
    assert (memory.rounds(33), memory.rounds(44)) == (4, 5)
    there, here = played(RobustStrategy(restored), server_round=6)[0], played(before, server_round=6)[0]
    np.testing.assert_array_equal(moved(there), moved(here))


@pytest.mark.parametrize("guarded", [False, True])
def test_a_memory_of_another_model_is_refused_before_a_model_is_sent(guarded):
    """Every round of such a run would be skipped, and the log would blame the clients."""
    memory = mt.recommended(f=2)
    played(RobustStrategy(memory))
    smaller = {name: OWN[name] for name in ("conv.weight", "norm.count")}
    strategy = RobustStrategy(mt.Guarded(memory) if guarded else memory)
    with pytest.raises(ValueError, match=r"updates with 17 coordinates, and these have 12.*reset\(\)"):
        asked(strategy, smaller)
    memory.reset()
    assert played(strategy, own=smaller)[1]["mixtailor-skipped"] == 0
    with pytest.raises(ValueError, match="updates with 12 coordinates, and these have 17"):
        asked(strategy, OWN)  # the same strategy again


def test_clients_that_claim_nothing_cannot_make_krum_refuse_a_round() -> None:
    """Of 12 clients 10 have weight then, and Krum allows a share of 0.35: a cap above half of it is refused."""
    rehearse(mt.Krum(f=2), 12, 100, reference=False, cap=0.175)
    with pytest.raises(ValueError, match=r"share <= .* = 0\.35 of the weight"):
        rehearse(mt.Krum(f=2), 12, 100, reference=False, cap=0.18)
