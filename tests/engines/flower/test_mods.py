"""Byzantine clients: attacks as client mods, broken replies, and collusion in a simulation."""

import numpy as np
import pytest
from engines.flower.rounds import NODES, OWN, LocalGrid, arrays_of, asked, differences, flat, record, reply, trained
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp

import mixtailor as mt
from mixtailor.attacks import (
    ALIE,
    ROP,
    Adaptive,
    Gaussian,
    LabelFlip,
    NonFinite,
    Oblivious,
    OptimalTailored,
    SignFlip,
    Tailored,
    Zero,
)
from mixtailor.engines.flower import FAULTS, Colluding, RobustStrategy, byzantine_mod, malformed_mod


def _context(partition=0, **config):
    return Context(1, 2, {"partition-id": partition, **config}, RecordDict(), {})


def _app(mod):
    app = ClientApp(mods=[mod])

    @app.train()
    def train(message: Message, context: Context) -> Message:
        return reply(message, trained(arrays_of(message.content["arrays"]), 1))

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        return reply(message, {}, accuracy=0.9)

    return app


def _message():
    return asked(RobustStrategy(mt.Mean()), OWN)[11]


def _update(answer):
    sent = arrays_of(answer.content["arrays"])
    return flat({name: sent[name].astype(np.float64) - OWN[name] for name in OWN if OWN[name].dtype != bool}, OWN)


HONEST = flat({n: trained(OWN, 1)[n].astype(np.float64) - OWN[n] for n in OWN if OWN[n].dtype != bool}, OWN)


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        (SignFlip(scale=2.0), -2.0 * HONEST),
        (Zero(), 0.0 * HONEST),
        (Oblivious() | Tailored(epsilon=0.5), -0.5 * HONEST),
    ],
    ids=str,
)
def test_an_attack_replaces_the_update(attack, expected):
    """The model plus what the attack makes of the update; counters, metrics and other messages are left alone."""
    app = _app(byzantine_mod(attack))
    answer = app(_message(), _context())
    np.testing.assert_allclose(_update(answer), expected, atol=1e-6)
    assert arrays_of(answer.content["arrays"])["norm.count"] == 8
    assert answer.content["metrics"]["num-examples"] == 10
    evaluation = Message(_message().content, 11, "evaluate")
    assert app(evaluation, _context()).content["metrics"]["accuracy"] == 0.9


def test_randomness_is_fresh_unless_a_seed_is_given():
    def noise(seed):
        return _update(_app(byzantine_mod(Gaussian(), seed=seed))(_message(), _context()))

    assert np.array_equal(noise(3), noise(3)) and not np.array_equal(noise(None), noise(None))


def test_not_a_number():
    answer = _app(byzantine_mod(NonFinite("nan")))(_message(), _context())
    assert np.isnan(_update(answer)).all()


def test_clients_that_send_updates():
    app = _app(byzantine_mod(SignFlip(), sends="updates"))
    sent = arrays_of(app(_message(), _context()).content["arrays"])
    np.testing.assert_array_equal(sent["fc.bias"], -trained(OWN, 1)["fc.bias"])


def test_only_chosen_clients_attack():
    """By partition id, or by what a function says of the context."""
    for nodes in ([0, 3], lambda context: context.node_config.get("byzantine", False)):
        app = _app(byzantine_mod(SignFlip(), nodes=nodes))
        np.testing.assert_allclose(_update(app(_message(), _context(3, byzantine=True))), -HONEST, atol=1e-6)
        np.testing.assert_allclose(_update(app(_message(), _context(4))), HONEST, atol=1e-6)
    with pytest.raises(ValueError, match="partition-id"):
        _app(byzantine_mod(SignFlip(), nodes=[0]))(_message(), Context(1, 2, {}, RecordDict(), {}))


def test_attacks_that_one_client_cannot_run_are_refused():
    with pytest.raises(ValueError, match=r"which one client does not have.*Colluding.*Oblivious\(\) \| ALIE"):
        byzantine_mod(ALIE())
    with pytest.raises(ValueError, match="acts on labels"):
        byzantine_mod(LabelFlip())
    with pytest.raises(TypeError, match="needs an attack"):
        byzantine_mod("sign_flip")
    with pytest.raises(ValueError, match="needs a fault of missing"):
        malformed_mod("odd")


@pytest.mark.parametrize("fault", FAULTS)
def test_malformed_replies_leave_other_messages_alone(fault):
    app = _app(malformed_mod(fault, nodes=[0]))
    assert app(_message(), _context(1)).content["metrics"]["num-examples"] == 10
    assert app(Message(_message().content, 11, "evaluate"), _context(0)).content["metrics"]["accuracy"] == 0.9


# Collusion.


def _answer(message):
    if message.metadata.message_type == "evaluate":
        return reply(message, {}, accuracy=0.7)
    node, server_round = message.metadata.dst_node_id, message.content["config"]["server-round"]
    return reply(message, trained(arrays_of(message.content["arrays"]), node + 1000 * server_round))


def _played(grid, **options):
    strategy = RobustStrategy(mt.Mean(), **options)
    messages = asked(strategy, OWN, grid=grid)
    return {r.metadata.src_node_id: r for r in grid.send_and_receive(list(messages.values()), timeout=1)}


@pytest.mark.parametrize("byzantine", [2, [11, 22]])
def test_colluding_clients_send_what_the_attack_makes_of_all(byzantine):
    """The tailored attack: -epsilon times the mean of the honest updates, which no client could know alone."""
    honest = _played(LocalGrid(answer=_answer))
    grid = Colluding(LocalGrid(answer=_answer), Tailored(epsilon=0.5), byzantine)
    assert grid.byzantine_nodes() == {11, 22}
    replies = _played(grid)
    mean = differences({node: honest[node] for node in NODES[2:]}, OWN).mean(axis=0)
    rows = dict(zip(replies, differences(replies, OWN), strict=True))
    for node in NODES:
        expected = -0.5 * mean if node in (11, 22) else differences({node: honest[node]}, OWN)[0]
        np.testing.assert_allclose(rows[node], expected, atol=3e-7)
    assert replies[11].content["metrics"]["num-examples"] == 10


@pytest.mark.parametrize("form", ["equal", "separate"])
@pytest.mark.parametrize("k", [None, 6])
def test_every_model_based_form_of_the_optimal_attack(form, k):
    """Clients send models w_i: what the attacker expects of the mean is w0 - lambda (w - w0), with w without attack."""
    attack = OptimalTailored(mt.Mean(), rows=form, k=k, highest=5.0)
    replies = _played(Colluding(LocalGrid(answer=_answer), attack, 2, seed=0))
    order = [11, 22, *(node for node in replies if node not in (11, 22))]
    honest = _played(LocalGrid(answer=_answer))
    supposed = differences({node: honest[node] for node in order}, OWN)
    if k is not None:  # the two colluders and the first k - 2 others are known, the rest is taken for their mean
        supposed[k:] = supposed[:k].mean(axis=0)
    sent = differences({node: replies[node] for node in (11, 22)}, OWN)
    reached = np.vstack([sent, supposed[2:]]).mean(axis=0)
    change = supposed.mean(axis=0)
    size = -float(reached @ change) / float(change @ change)
    np.testing.assert_allclose(reached, -size * change, atol=2e-3 * size * np.linalg.norm(change))
    assert size > 4.99  # separate rows stretch beyond the largest lambda of the lines
    result = RobustStrategy(mt.Krum(f=2)).start(
        Colluding(LocalGrid(answer=_answer), OptimalTailored(mt.Krum(f=2), rows=form, k=k), 2),
        record(OWN),
        num_rounds=2,
    )
    assert np.isfinite(arrays_of(result.arrays)["fc.bias"]).all()


def test_colluders_remember_what_the_server_answered():
    """An attack that plays over rounds is shown the step of the server, as all clients see it."""
    grid = Colluding(LocalGrid(answer=_answer), ROP(), 2)
    result = RobustStrategy(mt.Comed()).start(grid, record(OWN), num_rounds=3)
    seen = grid.memory.previous
    assert grid.memory.round == 3 and set(seen) == set(OWN)
    assert 0 < np.abs(seen["fc.bias"]).max() < 1.0 and np.isfinite(arrays_of(result.arrays)["fc.bias"]).all()


def test_an_attack_with_a_target():
    rule = mt.Krum(f=2)
    grid = Colluding(LocalGrid(answer=_answer), Adaptive(target=rule), 2)
    result = RobustStrategy(rule).start(grid, record(OWN), num_rounds=1)
    assert result.train_metrics_clientapp[1]["mixtailor-quarantined"] == []


@pytest.mark.parametrize("sends", ["models", "updates"])
def test_an_attack_tries_a_rule_with_what_the_strategy_trusts(sends):
    """Given the strategy's own `reference`, the colluders see it as an update; without one, FLTrust cannot be tried."""
    own_row = trained(OWN, 1234)
    change = {n: own_row[n] - OWN[n] if OWN[n].dtype.kind == "f" else own_row[n] for n in OWN}
    trusted = record(own_row if sends == "models" else change)
    grid = Colluding(
        LocalGrid(answer=_answer), Adaptive(mt.FLTrust()), 2, sends=sends, reference=lambda server_round, model: trusted
    )
    found = grid._reference(asked(RobustStrategy(mt.Mean()), OWN, grid=grid)[11])
    np.testing.assert_allclose(flat(found, OWN), flat(change, OWN), atol=1e-6)
    if sends == "models":
        strategy = RobustStrategy(mt.FLTrust(), reference=grid.reference)
        assert strategy.start(grid, record(OWN), num_rounds=1).train_metrics_clientapp[1]["mixtailor-skipped"] == 0


def test_replies_that_an_attack_cannot_use_are_left_as_they_are():
    """A silent client, an error and a NaN client do not stop the colluders; too few honest replies do."""

    def answer(message):
        node = message.metadata.dst_node_id
        if node == 99:
            return None
        mod = malformed_mod({88: "error", 77: "nan", 66: "missing", 55: "empty", 44: "type"}.get(node, "nan"))
        return _answer(message) if node < 44 else mod(message, None, lambda m, _: _answer(m))

    replies = _played(Colluding(LocalGrid(answer=answer), Tailored(epsilon=0.5), 1))
    assert replies[88].has_error() and 99 not in replies
    rows = differences({node: replies[node] for node in (11, 22, 33)}, OWN)
    np.testing.assert_allclose(rows[0], -0.5 * rows[1:].mean(axis=0), atol=3e-7)
    honest = _played(LocalGrid(answer=answer))
    replies = _played(Colluding(LocalGrid(answer=answer), Tailored(epsilon=0.5), [11, 22, 33]))
    for node in (11, 22, 33):
        assert replies[node].content["arrays"] == honest[node].content["arrays"]


def test_collusion_is_refused_where_clients_are_elsewhere():
    from flwr.superlink.grid import HttpGrid

    with pytest.raises(ValueError, match="Colluding is for simulations"):
        Colluding(HttpGrid(token="none"), Tailored(), 1)
    with pytest.raises(TypeError, match="needs an attack"):
        Colluding(LocalGrid(), "tailored", 1)
    grid = Colluding(LocalGrid(), Tailored(), 1)
    grid.set_run(run := grid.run)
    assert grid.run is run and grid.get_node_ids() == NODES
