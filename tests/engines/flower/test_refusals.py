"""What of Flower does not go together with a rule is refused with a sentence, and never in silence."""

import numpy as np
import pytest
from engines.flower.rounds import OWN, LocalGrid, played, record
from flwr.app import ConfigRecord, Context, RecordDict
from flwr.server import strategy as older
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.workflow.default_workflows import default_init_params_workflow
from flwr.serverapp.strategy import (
    DifferentialPrivacyClientSideAdaptiveClipping,
    DifferentialPrivacyClientSideFixedClipping,
    DifferentialPrivacyServerSideAdaptiveClipping,
    DifferentialPrivacyServerSideFixedClipping,
    FedAdagrad,
    FedAdam,
    FedAvgM,
    FedMedian,
    FedProx,
    FedYogi,
)

import mixtailor as mt
from mixtailor.engines.flower import RobustStrategy

WRAPPERS = [
    lambda strategy: DifferentialPrivacyServerSideFixedClipping(strategy, 0.1, 1.0, 9),
    lambda strategy: DifferentialPrivacyClientSideFixedClipping(strategy, 0.1, 1.0, 9),
    lambda strategy: DifferentialPrivacyServerSideAdaptiveClipping(strategy, 0.1, 9),
    lambda strategy: DifferentialPrivacyClientSideAdaptiveClipping(strategy, 0.1, 9),
]


@pytest.mark.parametrize("other", [FedAdam, FedYogi, FedAdagrad, FedAvgM, FedProx, FedMedian])
@pytest.mark.parametrize("first", [True, False], ids=["ours first", "theirs first"])
def test_a_class_of_ours_and_of_another_strategy_is_refused(other, first):
    """class X(RobustStrategy, FedAdam) took eta= and ignored Adam."""
    bases = (RobustStrategy, other) if first else (other, RobustStrategy)
    with pytest.raises(TypeError, match=rf"X is made of RobustStrategy and of Flower's {other.__name__}"):
        type("X", bases, {})


@pytest.mark.parametrize("other", [older.FedAdam, older.FedAvgM, older.Krum])
def test_strategies_of_the_older_interface_are_refused_too(other):
    """They are no strategies of the newer interface, and would be ignored just the same."""

    class Own(RobustStrategy):
        pass

    with pytest.raises(TypeError, match=rf"X is made of RobustStrategy and of Flower's {other.__name__}"):
        type("X", (Own, other), {})


class Counting(RobustStrategy):
    """A wrapper of a user's own."""

    def __init__(self, inner):
        super().__init__(mt.Comed())
        self.inner = inner

    def configure_train(self, server_round, arrays, config, grid):
        return self.inner.configure_train(server_round, arrays, config, grid)


def test_a_class_of_ones_own_is_welcome():
    class Logged(RobustStrategy):
        def configure_train(self, server_round, arrays, config, grid):
            return super().configure_train(server_round, arrays, config, grid)

    assert played(Logged(mt.Comed()))[1]["mixtailor-skipped"] == 0


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_wrappers_for_differential_privacy_are_refused_before_a_model_is_sent(wrap):
    """They rewrite replies before the quarantine, and their noise is made for a mean."""
    wrapped = wrap(RobustStrategy(mt.Comed()))
    with pytest.raises(ValueError, match=r"RobustStrategy cannot be wrapped in DifferentialPrivacy\w+Clipping"):
        wrapped.configure_train(1, record(OWN), ConfigRecord(), LocalGrid())
    with pytest.raises(ValueError, match="LocalDpMod"):
        wrapped.start(LocalGrid(), record(OWN), num_rounds=1)
    with pytest.raises(ValueError, match="RobustStrategy cannot be wrapped in DifferentialPrivacy"):
        wrap(Counting(RobustStrategy(mt.Comed()))).configure_train(1, record(OWN), ConfigRecord(), LocalGrid())


def test_secure_aggregation_is_refused():
    """SecAgg+ runs in a workflow of Flower's older API, which asks the strategy to configure_fit."""
    with pytest.raises(ValueError, match="shows the server their sum alone"):
        RobustStrategy(mt.Comed()).configure_fit(server_round=1, parameters=None, client_manager=None)


def test_a_workflow_of_secure_aggregation_is_refused_before_it_sends_anything():
    """What SecAggPlusWorkflow runs in asks for initial parameters first; the sentence says that sums are of no use."""
    whole = Context(run_id=1, node_id=0, node_config={}, state=RecordDict(), run_config={})
    with pytest.raises(ValueError, match=r"SecAgg\+ run in the older one alone, and show the server a sum"):
        default_init_params_workflow(LocalGrid(), LegacyContext(whole, strategy=RobustStrategy(mt.Comed())))


def test_the_older_interface_is_refused():
    """server_fn and start_server call initialize_parameters first; the sentence says what to write."""
    with pytest.raises(ValueError, match=r"needs Flower's message interface.*@app.main\(\)"):
        RobustStrategy(mt.Comed()).initialize_parameters(client_manager=None)


def test_a_wrapper_of_ones_own_is_not_refused():
    """Only what is known to rewrite replies is."""
    messages = Counting(RobustStrategy(mt.Comed())).configure_train(1, record(OWN), ConfigRecord(), LocalGrid())
    assert len(list(messages)) == 9 and np.isfinite(OWN["fc.bias"]).all()
