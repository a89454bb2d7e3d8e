"""Server optimisers: those of FedOpt, to the digit of Flower's own strategies."""

import numpy as np
import pytest
from engines.flower.rounds import OWN, LocalGrid, arrays_of, asked, flat, honest, played, record, reply, trained
from flwr.app import ConfigRecord
from flwr.serverapp.strategy import FedAdagrad, FedAdam, FedYogi

import mixtailor as mt
from mixtailor.engines.flower import Adagrad, Adam, RobustStrategy, Yogi

FLOATS = {name: values for name, values in OWN.items() if values.dtype.kind == "f"}
PAIRS = {
    "Adam": (Adam, FedAdam, {"eta": 0.03, "beta_1": 0.8, "beta_2": 0.95, "tau": 0.01}),
    "Adam as it comes": (Adam, FedAdam, {}),
    "Yogi": (Yogi, FedYogi, {"eta": 0.03, "beta_1": 0.8, "beta_2": 0.95, "tau": 0.01}),
    "Yogi as it comes": (Yogi, FedYogi, {}),
    "Adagrad": (Adagrad, FedAdagrad, {"eta": 0.03, "tau": 0.01}),
    "Adagrad as it comes": (Adagrad, FedAdagrad, {}),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_the_steps_are_those_of_flower(kind):
    """With the mean as rule and equal claims, five rounds end at the model of Flower's own strategy."""
    ours, theirs, options = PAIRS[kind]
    strategy, other = RobustStrategy(mt.Mean(), server_optimizer=ours(**options)), theirs(**options)
    own, their = FLOATS, FLOATS
    for server_round in range(1, 6):
        messages = asked(strategy, own, server_round)
        updates = {node: flat(trained(FLOATS, 100 * server_round + node), FLOATS) for node in messages}

        def moved_by(arrays, node, updates=updates):
            change = updates[node] - flat(FLOATS, FLOATS)
            cut = np.split(change, np.cumsum([values.size for values in arrays.values()])[:-1])
            return {
                name: arrays[name] + part.reshape(arrays[name].shape) for name, part in zip(arrays, cut, strict=True)
            }

        found, _ = strategy.aggregate_train(server_round, [reply(messages[n], moved_by(own, n)) for n in messages])
        sent = other.configure_train(server_round, record(their), ConfigRecord(), LocalGrid())
        theirs_now, _ = other.aggregate_train(
            server_round, [reply(message, moved_by(their, message.metadata.dst_node_id)) for message in sent]
        )
        own, their = arrays_of(found), arrays_of(theirs_now)
    assert np.abs(flat(own, FLOATS) - flat(FLOATS, FLOATS)).max() > 1e-3
    np.testing.assert_allclose(flat(own, FLOATS), flat(their, FLOATS), rtol=2e-4, atol=2e-6)


def test_by_hand():
    """Adagrad on one coordinate: differences 3 and 4 give steps 3 / (3 + 1) and 4 / (5 + 1)."""
    strategy = RobustStrategy(mt.Comed(), server_optimizer=Adagrad(eta=1.0, tau=1.0))
    own = {"w": np.zeros(1, np.float64)}
    for server_round, (difference, expected) in enumerate([(3.0, 0.75), (4.0, 0.75 + 4 / 6)], 1):
        messages = asked(strategy, own, server_round)
        replies = [reply(message, {"w": own["w"] + difference}) for message in messages.values()]
        own = arrays_of(strategy.aggregate_train(server_round, replies)[0])
        np.testing.assert_allclose(own["w"], expected)


@pytest.mark.parametrize("optimizer", [Adam(), Yogi(), Adagrad()], ids=repr)
def test_a_round_beyond_the_range_of_squares_leaves_no_trace(optimizer):
    """One difference of 1e30 makes its square infinite in float32; kept, it would stop every later step."""
    strategy = RobustStrategy(mt.Mean(), server_optimizer=optimizer)
    played(strategy)
    before, count = strategy.steps.moments, strategy.steps.count

    def huge(messages, _replies):
        return {n: reply(messages[n], {**trained(OWN, n), "fc.bias": np.full(5, 1e30, np.float32)}) for n in messages}

    arrays, metrics, _ = played(strategy, huge, server_round=2)
    assert metrics["mixtailor-skipped"] == 1 and strategy.steps.count == count and strategy.steps.moments is before
    np.testing.assert_array_equal(arrays["fc.bias"], OWN["fc.bias"])


def test_half_precision_models_keep_their_type_and_move():
    """The square of 1e-4 is no number of float16."""
    own = {"w": np.ones(4, np.float16)}
    strategy = RobustStrategy(mt.Comed(), server_optimizer=Adam(eta=0.5, tau=1e-4))
    messages = asked(strategy, own)
    replies = [reply(message, {"w": own["w"] + np.float16(1e-3)}) for message in messages.values()]
    found = arrays_of(strategy.aggregate_train(1, replies)[0])["w"]
    assert found.dtype == np.float16 and (found > 1.1).all()


def test_another_model_starts_again():
    strategy = RobustStrategy(mt.Mean(), server_optimizer=Adam())
    played(strategy)
    assert strategy.steps.count == 1
    smaller = {"fc.bias": OWN["fc.bias"]}
    messages = asked(strategy, smaller)
    assert strategy.steps.count == 0 and strategy.steps.moments == {}
    strategy.aggregate_train(1, list(honest(messages, smaller).values()))
    assert strategy.steps.count == 1


@pytest.mark.parametrize("options", [{"eta": 0.0}, {"beta_1": 1.0}, {"beta_2": -0.1}, {"tau": 0.0}])
def test_settings_are_checked(options):
    with pytest.raises((ValueError, TypeError), match=f"Adam needs {next(iter(options))}"):
        Adam(**options)


def test_an_optimiser_and_a_learning_rate_are_not_mixed():
    with pytest.raises(ValueError, match="learning_rate and momentum or server_optimizer, not both"):
        RobustStrategy(mt.Comed(), server_optimizer=Adam(), learning_rate=0.5)
    with pytest.raises(ValueError, match=r"server_optimizer as Adam\(\), Yogi\(\) or Adagrad\(\)"):
        RobustStrategy(mt.Comed(), server_optimizer="adam")


@pytest.mark.parametrize(
    "options",
    [
        {"momentum": 0.9},
        {"learning_rate": 2.0},
        {"server_optimizer": Adam(eta=0.5)},
        {"server_optimizer": Yogi(eta=0.5)},
    ],
    ids=["momentum", "learning rate", "adam", "yogi"],
)
def test_a_running_variance_is_what_clients_measured(options):
    """Clients find a tenth of it in each round. A longer step makes it negative, and the model evaluates to NaN."""

    def variances(**more):
        strategy = RobustStrategy(mt.Comed(), **options, **more)
        own, found = {"weight": np.zeros(2, np.float32), "0.running_var": np.ones(3, np.float32)}, []
        for server_round in range(1, 5):
            messages = asked(strategy, own, server_round)
            sent = {"weight": own["weight"] + 1, "0.running_var": own["0.running_var"] / 10}
            arrays, _ = strategy.aggregate_train(server_round, [reply(message, sent) for message in messages.values()])
            own = arrays_of(arrays)
            found.append(own["0.running_var"])
        return np.array(found)

    np.testing.assert_allclose(variances()[:, 0], [0.1, 0.01, 0.001, 0.0001], rtol=1e-3)
    assert variances(statistics=()).min() < 0
