"""Training under attack: what a round does, and that a seed decides everything."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn

from mixtailor import (
    NNM,
    CenteredClipping,
    Comed,
    DnC,
    FLTrust,
    Krum,
    Mean,
    MixTailor,
    MoNNA,
    Omniscient,
    Resampling,
    SeededEntropy,
    TrimmedMean,
)
from mixtailor.attacks import (
    ALIE,
    ROP,
    Adaptive,
    Attack,
    BestResponse,
    FangKrum,
    KnowsDraw,
    LabelFlip,
    Leeway,
    LineSearch,
    Mimic,
    NonFinite,
    Oblivious,
    OptimalTailored,
    Sees,
    SignFlip,
    Tailored,
)
from mixtailor.rules import Rule
from mixtailor.rules.part import Asks
from mixtailor.simulation import (
    Batches,
    Cosine,
    Dataset,
    Layout,
    Outcome,
    Settings,
    Simulation,
    WorkerGradients,
    build,
    by_label,
    digits,
    iid,
    stream,
    stream_seed,
    synthetic,
)
from mixtailor.simulation.adversary import Adversary, Cast, placed
from mixtailor.simulation.server import Server
from mixtailor.updates import Point, Updates


def quick(**changes: Any) -> Settings:
    """A run of a second."""
    given: dict[str, Any] = {"n": 9, "byzantine": 2, "rounds": 12, "batch": 8, "learning_rate": 0.1}
    return Settings(**{**given, "evaluate_every": 5, **changes})


def simulated(rule: Rule, attack: Attack | None = None, model: str = "logistic", **changes: Any) -> Simulation:
    return Simulation(synthetic(), model, rule, attack, settings=quick(**changes))


def trained(rule: Rule, attack: Attack | None = None, model: str = "logistic", **changes: Any) -> Outcome:
    return simulated(rule, attack, model, **changes).run()


def test_a_round_is_what_it_says() -> None:
    """Two rounds worked out by hand from the parts: batches, gradients, attack, mean, SGD with momentum and decay."""
    settings = quick(rounds=2, momentum=0.9, weight_decay=0.01, learning_rate=0.2)
    data = synthetic()
    outcome = Simulation(data, "logistic", Mean(), Tailored(epsilon=2.0), settings=settings).run()

    model = build("logistic", data, seed=0)
    layout = Layout.of(model)
    weights = layout.flatten(model)
    lying = stream(0, "byzantine").choice(9, 2, replace=False)
    honest = [worker for worker in range(9) if worker not in lying]
    batches = Batches(iid(data.train_labels.numpy(), 9, stream(0, "partition")), size=8, seed=0)
    velocity = torch.zeros_like(weights)
    for number in range(2):
        seed = stream_seed(0, "dropout", number)
        rows, _ = WorkerGradients(model)(weights, *data.train(batches(number, honest)), seed=seed)
        answer = (rows.sum(0) + 2 * (-2.0) * rows.mean(0)) / 9
        velocity = 0.9 * velocity + answer + 0.01 * weights
        weights = weights - 0.2 * velocity
    assert torch.allclose(outcome.weights, weights, atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "attack"),
    [
        (lambda: MixTailor([Krum(f=2), Comed(), TrimmedMean(f=2)]), lambda: Tailored(epsilon=0.1)),
        (lambda: Resampling(repeats=2) >> TrimmedMean(f=1), lambda: ALIE(z=1.0)),
        (lambda: CenteredClipping(tau=1.0), lambda: ROP()),
    ],
)
def test_a_seed_decides_everything(rule: Callable[[], Rule], attack: Callable[[], Attack]) -> None:
    """The same seed gives the same bits, another seed other weights; the times alone differ."""
    first, second = trained(rule(), attack()), trained(rule(), attack())
    other = trained(rule(), attack(), seed=1)
    assert torch.equal(first.weights, second.weights)
    assert not torch.equal(first.weights, other.weights)
    timeless = [[{k: v for k, v in r.items() if "seconds" not in k} for r in o.records] for o in (first, second)]
    assert timeless[0] == timeless[1]


@pytest.mark.parametrize("attack", [BestResponse(DnC(f=4)), FangKrum(target=DnC(f=4)), Leeway(target=Krum(f=1))])
def test_attackers_hide_where_too_few_rows_are_left_to_try_a_rule(attack: Attack) -> None:
    """Training that comes apart leaves few finite rows; a round goes on, and the simulation sees how it ends."""
    adversary = Adversary(attack, quick(n=12, byzantine=4))
    honest = torch.randn((8, 5), generator=torch.Generator().manual_seed(0))
    rows, facts = adversary.rows(honest, None, 4, 0)
    assert rows.shape == (4, 5) and facts
    honest[2:] = float("nan")
    rows, facts = adversary.rows(honest, None, 4, 1)
    assert torch.equal(rows, honest[:2].mean(0).expand(4, -1)) and not facts


def test_rules_share_the_order_of_the_data() -> None:
    """Two rules that answer the same, whatever the attack, give the same weights: nothing else depends on them."""
    one = trained(Omniscient(), Tailored(epsilon=0.1))
    two = trained(Omniscient(), SignFlip())
    assert torch.equal(one.weights, two.weights)


def test_the_mean_collapses_and_a_median_does_not() -> None:
    """On handwritten digits, two of twelve workers with epsilon = 10 undo the mean and leave the median."""
    settings = quick(n=12, rounds=120, batch=16, learning_rate=0.05, momentum=0.9, evaluate_every=20)
    reached = {
        rule: Simulation(digits(), "mlp", rule, Tailored(epsilon=10.0), settings=settings).run().accuracy(1)
        for rule in (Mean(), Comed(), Omniscient())
    }
    assert reached[Mean()] < 0.5
    assert reached[Comed()] > 0.85
    assert reached[Omniscient()] > 0.92


def test_records_tell_what_happened() -> None:
    """Who lies, what was drawn, whom Krum chose, and how many rounds each record covers."""
    outcome = trained(MixTailor([Krum(f=2), Comed()]), Tailored(epsilon=0.1))
    assert [record["round"] for record in outcome.records] == [0, 5, 10, 12]
    covered = [sum(record["drawn"].values()) for record in outcome.records]
    assert covered == [0, 5, 5, 2]
    drawn = {name for record in outcome.records for name in record["drawn"]}
    assert drawn <= {"Krum(f=2)", "Comed()"} and drawn
    lying = stream(0, "byzantine").choice(9, 2, replace=False)
    assert set(outcome.records[1]["byzantine"]) == {str(worker) for worker in lying}
    krums = sum(record["drawn"].get("Krum(f=2)", 0) for record in outcome.records)
    assert sum(sum(record["selected"].values()) for record in outcome.records) == krums
    assert set(outcome.records[1]["rule_seconds"]) == set(outcome.records[1]["drawn"])
    assert outcome.records[1]["train_loss"] > 0


def test_faults_are_counted_and_named() -> None:
    """Rows that are not finite are quarantined each round, by the workers that sent them."""
    outcome = trained(Krum(f=2), NonFinite())
    lying = {str(worker) for worker in stream(0, "byzantine").choice(9, 2, replace=False)}
    assert outcome.records[1]["quarantined"] == dict.fromkeys(lying, 5)
    assert torch.isfinite(outcome.weights).all()


def test_more_faults_than_declared_skip_the_round() -> None:
    outcome = trained(Krum(f=1), NonFinite())
    assert outcome.records[-1]["skipped"] == 2
    assert outcome.records[-1]["accuracy"] == outcome.records[0]["accuracy"]


def test_byzantine_may_differ_from_the_declared_f() -> None:
    assert trained(Krum(f=2), Tailored(epsilon=0.1), byzantine=1).records[-1]["byzantine"].keys().__len__() == 1
    assert len(trained(Krum(f=2), Tailored(epsilon=0.1), byzantine=4).records[-1]["byzantine"]) == 4


def test_without_byzantine_workers_no_attack_is_made() -> None:
    attacked, plain = trained(Mean(), Tailored(epsilon=10.0), byzantine=0), trained(Mean(), None, byzantine=0)
    assert torch.equal(attacked.weights, plain.weights)


def test_identities_change_every_round() -> None:
    outcome = trained(Krum(f=2), Tailored(epsilon=0.1), identities="changing", rounds=40, evaluate_every=40)
    lying = outcome.records[-1]["byzantine"]
    assert sum(lying.values()) == 80 and len(lying) == 9


def test_identities_change_every_few_rounds() -> None:
    """Every ten rounds others are Byzantine; every single round is what "changing" is."""
    cast = Cast(Settings(n=12, byzantine=4, identities=10, seed=3))
    spells = [{cast(round)[1] for round in range(start, start + 10)} for start in range(0, 50, 10)]
    assert all(len(spell) == 1 for spell in spells) and len(set.union(*spells)) > 3
    changing, single = (Cast(Settings(n=12, byzantine=4, identities=each)) for each in ("changing", 1))
    assert [changing(round) for round in range(20)] == [single(round) for round in range(20)]
    outcome = trained(Krum(f=2), Tailored(epsilon=0.1), identities=10, rounds=20, evaluate_every=10)
    assert [sorted(record["byzantine"].values()) for record in outcome.records[1:]] == [[10, 10], [10, 10]]


def test_an_attack_learns_whose_rows_are_whose() -> None:
    """Names of honest and Byzantine workers reach an attack on a server that remembers them."""
    seen = []

    @dataclasses.dataclass(frozen=True)
    class Curious(Tailored):
        def points(self, scene: Any) -> Any:
            seen.append((scene.workers, scene.f))
            return super().points(scene)

    trained(Comed(), Curious(epsilon=0.1), n=8, byzantine=2, identities="changing", rounds=5)
    cast = Cast(quick(n=8, byzantine=2, identities="changing"))
    for round, (workers, f) in enumerate(seen):
        byzantine = cast(round)[1]
        assert f == 2 and workers == (*(w for w in range(8) if w not in byzantine), *byzantine)
    assert len(seen) == 5


def test_partial_participation_draws_workers_anew() -> None:
    """Six of twelve take part; Byzantine ones only when drawn; a majority of liars does not stop the attack."""
    outcome = trained(Comed(), Tailored(epsilon=0.1), n=12, byzantine=4, participation=0.5, rounds=40)
    lying = [sum(record["byzantine"].values()) for record in outcome.records]
    assert 40 < sum(lying) < 120
    assert torch.isfinite(outcome.weights).all()


@pytest.mark.parametrize(
    "attack", [Mimic(), Oblivious() | Tailored(epsilon=1.0), SignFlip(), LineSearch(ALIE(), Comed(), budget=4)]
)
@pytest.mark.parametrize(
    "changes", [{}, {"worker_momentum": 0.9}, {"worker_momentum": 0.9, "identities": "changing"}], ids=str
)
def test_attacks_of_every_kind_run(attack: Attack, changes: dict[str, Any]) -> None:
    """With memory, with own rows, alone, with a target: with and without momentum at the workers."""
    assert torch.isfinite(trained(Comed(), attack, **changes).weights).all()


def test_worker_momentum_follows_its_formula() -> None:
    """Two rounds by hand: m <- beta m + (1 - beta) g, and the mean of the momenta is the step."""
    settings = quick(n=4, byzantine=0, rounds=2, worker_momentum=0.5, momentum=0.0, weight_decay=0.0)
    data = synthetic()
    outcome = Simulation(data, "logistic", Mean(), settings=settings).run()
    model = build("logistic", data, seed=0)
    weights = Layout.of(model).flatten(model)
    batches = Batches(iid(data.train_labels.numpy(), 4, stream(0, "partition")), size=8, seed=0)
    momenta = torch.zeros(4, len(weights))
    for number in range(2):
        rows, _ = WorkerGradients(model)(weights, *data.train(batches(number)))
        momenta = 0.5 * momenta + 0.5 * rows
        weights = weights - 0.1 * momenta.mean(0)
    assert torch.allclose(outcome.weights, weights, atol=1e-6)


def test_one_local_step_is_a_gradient_step() -> None:
    """With tau = 1 and no attack, deltas, models and gradients are three ways to the same weights."""
    plain: dict[str, Any] = {"byzantine": 0, "momentum": 0.0, "weight_decay": 0.0}
    gradients = trained(Mean(), **plain, learning_rate=0.1)
    deltas = trained(Mean(), **plain, learning_rate=1.0, sends="deltas", local_learning_rate=0.1)
    models = trained(Mean(), **plain, learning_rate=1.0, sends="models", local_learning_rate=0.1)
    assert torch.allclose(gradients.weights, deltas.weights, atol=1e-5)
    assert torch.allclose(gradients.weights, models.weights, atol=1e-5)


def test_an_aggregate_of_models_is_the_next_model() -> None:
    """The paper's w+ = AGG(w_i), exactly, whatever learning rate and momentum are; a step towards it is asked for."""
    options: dict[str, Any] = {"byzantine": 0, "sends": "models", "local_steps": 2, "rounds": 1}
    outcome = trained(Comed(), None, **options, learning_rate=1e-3, momentum=0.9)
    simulation = simulated(Comed(), None, **options)
    weights = simulation._server.weights
    models, _ = simulation._workers.rows(weights, 0, range(simulation.settings.n))
    assert torch.equal(outcome.weights, torch.as_tensor(Comed()(models)))
    assert (outcome.weights - weights).norm() > 0.01
    stepped = trained(Comed(), None, **options, learning_rate=0.5, momentum=0.0, replaces_model=False)
    assert torch.allclose(stepped.weights, (weights + outcome.weights) / 2, atol=1e-6)


def test_an_attack_on_models_starts_from_the_one_that_the_server_sent() -> None:
    """``w0 - epsilon (w - w0)``, and not minus epsilon times the mean model."""
    honest = 5.0 + torch.randn(8, 6, generator=torch.Generator().manual_seed(0))
    model = torch.full((6,), 5.0)
    adversary = Adversary(Tailored(epsilon=0.5), Settings(n=10, byzantine=2, sends="models"))
    rows, _ = adversary.rows(honest, None, 2, 0, model)
    assert torch.allclose(rows, model - 0.5 * (honest.mean(0) - model), atol=1e-5)


@pytest.mark.parametrize("form", ["equal", "separate"])
@pytest.mark.parametrize("k", [None, 6])
def test_every_model_based_form_starts_from_the_server_s_model_and_trains(form: Any, k: int | None) -> None:
    """Full or partial knowledge, equal or separate rows. With all known, Krum's model is turned round about w0."""
    changes = torch.from_numpy(0.3 + np.random.default_rng(0).normal(size=(12, 100)))
    model = torch.full((100,), 7.0, dtype=torch.float64)
    attack = OptimalTailored(Krum(f=2), rows=form, k=k, budget=100)
    adversary = Adversary(attack, Settings(n=12, byzantine=2, sends="models"))
    models = model + changes
    wrong, facts = adversary.rows(models[:10], models[10:], 2, 0, model)
    alike, _ = adversary.rows(changes[:10], changes[10:], 2, 0)
    assert torch.allclose(wrong - model, alike, atol=1e-9)
    reached, unattacked = (Krum(f=2)(rows) - model for rows in (torch.cat([models[:10], wrong]), models))
    if k is None:
        assert facts["feasible"] and torch.cosine_similarity(reached, unattacked, dim=0) < -0.99
    assert trained(Krum(f=2), attack, sends="models", rounds=2).diverged is None


@pytest.mark.parametrize("rule", [FLTrust(), MoNNA(f=2), CenteredClipping(tau=1.0)], ids=repr)
@pytest.mark.parametrize("sends", ["gradients", "models"])
def test_an_attack_tries_a_rule_with_the_reference_of_the_round(rule: Rule, sends: Any) -> None:
    """What the server trusts, or its last result: in every round, the value that the attacker finds is the server's."""
    found: list[tuple[float, float]] = []

    class Noting(Adversary):
        def rows(self, honest: Any, own: Any, count: int, round: int, *more: Any, **known: Any) -> Any:
            wrong, facts = super().rows(honest, own, count, round, *more, **known)
            if not more or more[0] is None:  # differences to the model, where workers send models
                result = rule(torch.cat([honest, wrong]), reference=known["reference"])
                found.append((float(facts["value"]), float(result @ honest.mean(0))))  # type: ignore[arg-type]
            return wrong, facts

    changes: dict[str, Any] = {} if sends == "gradients" else {"sends": "models", "local_steps": 2}
    simulation = simulated(rule, Adaptive(rule), rounds=3, **changes)
    simulation._adversary = Noting(Adaptive(rule), simulation.settings)
    assert simulation.run().diverged is None and len(found) == 3
    for believed, reached in found:
        assert believed == pytest.approx(reached, rel=1e-3, abs=1e-6)


def test_nesterov_is_torchs() -> None:
    """The server's steps with deltas are those of torch.optim.SGD along their negatives: DiLoCo's outer step."""
    settings = Settings(sends="deltas", local_steps=5, learning_rate=0.7, momentum=0.9, nesterov=True)
    start, random = torch.tensor([1.0, -2.0, 0.5]), torch.Generator().manual_seed(0)
    server, twin = Server(start, settings), nn.Parameter(start.clone())
    optimizer = torch.optim.SGD([twin], lr=0.7, momentum=0.9, nesterov=True)
    for round in range(5):
        delta = torch.randn(3, generator=random)
        server.step(delta, round)
        twin.grad = -delta
        optimizer.step()
    torch.testing.assert_close(server.weights, twin.detach())
    with pytest.raises(ValueError, match="nesterov needs momentum > 0"):
        Settings(momentum=0.0, nesterov=True)


def test_local_steps_learn_under_a_model_based_attack() -> None:
    """Three local steps; the tailored attack turns the mean of the models round, and the median does not follow."""
    changes: dict[str, Any] = {"sends": "models", "local_steps": 3, "rounds": 30}
    robust = trained(Comed(), Tailored(epsilon=10.0), **changes)
    assert robust.accuracy(1) > 0.8
    assert trained(Mean(), Tailored(epsilon=10.0), **changes).accuracy(1) < robust.accuracy(1) - 0.2


def test_flipped_labels_reach_the_gradients() -> None:
    """A label flip that maps every label to itself changes nothing; a real one changes the weights."""

    class Same(LabelFlip):
        def labels(self, labels: Any) -> Any:
            return labels

    honest, same = trained(Mean(), None), trained(Mean(), Same())
    assert torch.equal(honest.weights, same.weights)
    assert not torch.equal(honest.weights, trained(Mean(), LabelFlip()).weights)


def test_the_optimal_attack_turns_the_result_of_all_correct_rows() -> None:
    """The paper's g has all n rows in it: the Byzantine workers' own gradients are computed for this attack."""
    random = np.random.default_rng(0)
    matrix = torch.from_numpy(random.normal(size=(12, 5)))
    adversary = Adversary(OptimalTailored(Comed()), Settings(n=12, byzantine=4))
    assert adversary.needs_own
    wrong, facts = adversary.rows(matrix[:8], matrix[8:], 4, 0)
    g, result = Comed()(matrix), Comed()(torch.cat([matrix[:8], wrong]))
    assert facts["feasible"] and torch.allclose(result, -facts["lambda"] * g)
    assert not torch.allclose(Comed()(matrix[:8]), g)


def test_an_attacker_that_sees_k_rows_gets_its_own() -> None:
    """``OptimalTailored(k=4)`` is ``Sees(4) | OptimalTailored()``: the same rows, and data for those who lie."""
    own = OptimalTailored(Comed(), k=4, budget=20)
    assert own.needs_own()
    options = {"n": 7, "byzantine": 2, "rounds": 2, "batch": 4, "learning_rate": 0.1, "evaluate_every": 2}
    same = Sees(4) | OptimalTailored(Comed(), budget=20)
    first, second = (
        Simulation(synthetic(), "logistic", Comed(), attack, settings=Settings(**options)).run().weights
        for attack in (own, same)
    )
    assert torch.equal(first, second)
    with pytest.raises(ValueError, match="Give spread='all'"):
        Simulation(synthetic(), "logistic", Comed(), own, settings=Settings(**options, spread="honest"))


@dataclasses.dataclass(frozen=True)
class Trusting(Rule):
    """A rule of somebody else's, whose result is what the server trusts."""

    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "nothing"

    def min_rows(self) -> int:
        return 1

    def asks(self) -> Asks:
        return Asks(reference="trusted")

    def decide(self, updates: Updates) -> Point:
        assert updates.reference is not None
        return updates.reference


@pytest.mark.parametrize(
    "rule", [FLTrust(), MoNNA(f=2), Trusting(), MixTailor([Comed(), NNM(2) >> MoNNA(2)])], ids=repr
)
def test_a_trusted_update_comes_from_the_server_s_own_examples(rule: Rule) -> None:
    assert trained(rule, Tailored(epsilon=10.0), rounds=60).accuracy(1) > 0.7


def test_honest_workers_alone_hold_the_labels() -> None:
    """By label with all data at ten honest workers, each label is learnt from: the paper's non-iid setting."""
    settings = quick(n=12, rounds=60, spread="honest", batch=16)
    simulation = Simulation(
        synthetic(), "logistic", Omniscient(), Tailored(epsilon=0.1), settings=settings, partition=by_label
    )
    labels = synthetic().train_labels.numpy()
    held = [set(labels[part]) for worker, part in enumerate(simulation._workers.batches.parts[:12])]
    lying = set(simulation._cast.fixed)
    assert sorted(label for worker, own in enumerate(held) if worker not in lying for label in own) == list(range(10))
    assert simulation.run().accuracy(1) > 0.9
    with pytest.raises(ValueError, match="spread='all'"):
        Simulation(synthetic(), "logistic", Mean(), SignFlip(), settings=settings)


def test_a_leaked_draw_is_the_server_s_draw() -> None:
    """An attacker that knows the draw tries the very rule that the server then applies."""
    rule = MixTailor([Krum(f=2, p=p) for p in (1.0, 2.0, 3.0)], entropy=SeededEntropy(5))
    drawn: list[str] = []

    class Spy(KnowsDraw):
        def known(self, target: Rule, scene: Any) -> Rule:
            found = super().known(target, scene)
            drawn.append(repr(found))
            return found

    outcome = trained(rule, Spy() | LineSearch(Tailored(), rule, budget=4), evaluate_every=1)
    assert drawn == [next(iter(record["drawn"])) for record in outcome.records[1:]]


def test_divergence_ends_in_a_number() -> None:
    """Weights beyond floating point stop the training and not the program; the accuracy is what it is."""
    outcome = trained(Mean(), Tailored(epsilon=1e30), "mlp", rounds=30)
    assert outcome.diverged is not None and outcome.records[-1]["diverged"] == outcome.diverged
    assert outcome.records[-1]["round"] == 30 and 0 <= outcome.accuracy() < 0.5


def test_schedules_are_followed() -> None:
    outcome = trained(Mean(), rate=Cosine(), rounds=10, evaluate_every=5)
    assert [round(record["learning_rate"], 4) for record in outcome.records] == [0.1, 0.0655, 0.0024]


def test_your_own_network_and_tensors() -> None:
    """Any module and any tensors: a residual network on two Gaussians."""

    class Residual(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 2)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return self.outer(inputs + torch.tanh(self.inner(inputs)))  # type: ignore[no-any-return]  # torch modules return Any

    labels = torch.arange(400) % 2
    inputs = torch.randn(400, 4) + 2.0 * labels.unsqueeze(1)
    data = Dataset("mine", 2, inputs[:300], labels[:300], inputs[300:], labels[300:])
    outcome = Simulation(data, Residual(), Krum(f=2), Tailored(epsilon=10.0), settings=quick(rounds=50)).run()
    assert outcome.accuracy(1) > 0.9


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"byzantine": 8}, "two honest workers"),
        ({"rounds": 0}, "rounds >= 1"),
        ({"momentum": 1.0}, "0 <= momentum < 1"),
        ({"learning_rate": -1.0}, "learning_rate > 0"),
        ({"participation": 0.0}, "participation"),
        ({"local_steps": 2}, "deltas"),
        ({"sends": "models", "worker_momentum": 0.5}, "local_momentum"),
        ({"identities": "changing", "spread": "honest"}, "spread='all'"),
        ({"identities": 5, "spread": "honest"}, "spread='all'"),
        ({"identities": 0}, "a number of rounds >= 1 and got identities = 0"),
        ({"weight_decay": -1.0}, "weight_decay"),
        ({"seed": -1}, "seed"),
        ({"byzantine": -1}, "A run needs byzantine >= 0 and got byzantine = -1"),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        quick(**changes)


@pytest.mark.parametrize("changes", [{"n": 2.5}, {"byzantine": "2"}, {"rounds": 1e3}])
def test_counts_are_whole_numbers(changes: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match=r"A run needs \w+ as a whole number and got"):
        quick(**changes)


def test_too_few_rows_for_the_rule_is_the_rule_s_error() -> None:
    with pytest.raises(ValueError, match="n >= 2f"):
        trained(Krum(f=4), Tailored())


def test_accuracy_is_of_the_last_evaluations() -> None:
    outcome = trained(Mean(), byzantine=0)
    assert outcome.accuracy(2) == np.mean([record["accuracy"] for record in outcome.records[-2:]])


def test_tracker_is_told_every_evaluation() -> None:
    """By their rounds, with numbers alone; it stays open, since it is not the simulation's."""

    class Told:
        def __init__(self) -> None:
            self.points: list[tuple[int, dict[str, float]]] = []

        def log(self, step: int, values: Mapping[str, float]) -> None:
            self.points.append((step, dict(values)))

        def close(self) -> None:
            raise AssertionError("closed by somebody who did not open it")

    told = Told()
    outcome = Simulation(synthetic(), "logistic", Mean(), settings=quick(), tracker=told).run()
    assert [step for step, _ in told.points] == [record["round"] for record in outcome.records]
    assert [values["accuracy"] for _, values in told.points] == [record["accuracy"] for record in outcome.records]
    assert all(isinstance(value, (int, float)) for _, values in told.points for value in values.values())


def test_the_account_of_every_worker_is_kept() -> None:
    """Records add up to it, all rounds count, and the liars of a loud attack are far from the answers."""
    settings = Settings(n=9, byzantine=2, rounds=12, batch=8, evaluate_every=4)
    for rule in (Krum(f=2), Comed()):
        outcome = Simulation(synthetic(), "logistic", rule, Tailored(epsilon=10.0), settings=settings).run()
        account = outcome.reputation()
        assert len(account) == 9 and all(account[worker].rounds == 12 for worker in range(9))
        assert all(account[worker].measured == (12 if rule == Krum(f=2) else 3) for worker in range(9))
        lying = {int(worker) for record in outcome.records for worker in record["byzantine"]}
        assert set(list(account)[:2]) == {str(worker) for worker in lying}


@pytest.mark.parametrize("byzantine", [(), (0,), (5,), (1, 2), (0, 3, 5)])
def test_byzantine_rows_stand_where_their_workers_do(byzantine: tuple[int, ...]) -> None:
    workers = tuple(range(6))
    honest = torch.tensor([[float(worker)] for worker in workers if worker not in byzantine])
    wrong = torch.tensor([[-float(worker)] for worker in byzantine], dtype=torch.float64).reshape(-1, 1)
    rows = placed(workers, byzantine, honest, wrong)
    assert rows.dtype == torch.float32
    assert rows[:, 0].tolist() == [-float(worker) if worker in byzantine else float(worker) for worker in workers]
    room = torch.full((6, 1), torch.nan)
    room[: len(honest)] = honest
    inside = placed(workers, byzantine, room[: len(honest)], wrong, room)
    assert torch.equal(inside, rows) and (not byzantine or inside is room)
