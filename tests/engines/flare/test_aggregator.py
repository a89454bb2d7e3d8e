"""`RobustAggregator` on what sites send, without a network: models, differences, counters, and everything else."""

import json

import numpy as np
import pytest

import mixtailor as mt

pytest.importorskip("nvflare")

import torch
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.fl_context import FLContext
from nvflare.app_common.abstract.fl_model import FLModel, ParamsType
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType

from mixtailor.engines.flare import RobustAggregator

RANDOM = np.random.default_rng(0)
MODEL = {
    "weight": RANDOM.normal(size=(4, 3)).astype(np.float32),
    "bias": np.zeros(4, np.float32),
    "steps": np.array(7, np.int64),
}
SITES = [f"site-{place}" for place in range(1, 8)]


def sent_to_sites(aggregator, model):
    """What FLARE's controllers do before each site gets its task."""
    context = FLContext()
    context.set_prop(AppConstants.TRAIN_SHAREABLE, DXO(DataKind.WEIGHTS, data=model).to_shareable(), private=True)
    aggregator.handle_event(AppEventType.BEFORE_TRAIN_TASK, context)


def round_of(aggregator, updates, model=MODEL):
    """One round: `updates` are models of FLARE by site."""
    aggregator.reset_stats()
    sent_to_sites(aggregator, model)
    for site, update in updates.items():
        update.meta["client_name"] = site
        aggregator.accept_model(update)
    return aggregator.aggregate_model()


def trained(place, step=0.1):
    """The model of a site after honest training."""
    random = np.random.default_rng(place)
    found = {name: values + step + 0.01 * random.normal(size=values.shape) for name, values in MODEL.items()}
    found = {name: values.astype(MODEL[name].dtype) for name, values in found.items()}
    return {**found, "steps": np.array(10 + place % 2, np.int64)}


def honest(**more):
    return {site: FLModel(params=trained(place), **more) for place, site in enumerate(SITES)}


def difference(params):
    return {name: (values - MODEL[name]).astype(values.dtype) for name, values in params.items()}


def test_full_models_are_aggregated_as_differences():
    """The result is what the rule makes of the differences in one process, plus the model; counters keep their type."""
    found = round_of(RobustAggregator("comed", f=2), honest())
    rows = [trained(place) for place in range(len(SITES))]
    expected = np.median([row["weight"] for row in rows], axis=0)
    assert found.params_type == ParamsType.FULL
    np.testing.assert_allclose(found.params["weight"], expected, atol=1e-6)
    assert found.params["weight"].dtype == np.float32 and found.params["steps"] == 10
    assert found.params["steps"].dtype == np.int64 and found.params["steps"].shape == ()


def test_differences_give_a_difference():
    """With ParamsType.DIFF, FLARE adds the result to the model by itself."""
    updates = {site: FLModel(params_type="DIFF", params=difference(update.params)) for site, update in honest().items()}
    found = round_of(RobustAggregator("comed", f=2), updates)
    whole = round_of(RobustAggregator("comed", f=2), honest())
    assert found.params_type == ParamsType.DIFF
    np.testing.assert_allclose(MODEL["weight"] + found.params["weight"], whole.params["weight"], atol=1e-6)


@pytest.mark.parametrize("rule", ["recommended", "mixtailor", "nnm >> krum", "geometric_median"])
def test_hostile_sites_do_not_move_the_model(rule):
    """Two of seven send a huge model; the result stays among the honest ones."""
    updates = honest()
    for site in SITES[:2]:
        updates[site] = FLModel(params={name: (values - 1e6).astype(values.dtype) for name, values in MODEL.items()})
    found = round_of(RobustAggregator(rule, f=2), updates)
    assert abs(found.params["weight"] - MODEL["weight"] - 0.1).max() < 0.1


BROKEN = {
    "an extra array": lambda params: {**params, "more": np.zeros(3, np.float32)},
    "a missing array": lambda params: {"weight": params["weight"]},
    "another shape": lambda params: {**params, "bias": np.zeros(5, np.float32)},
    "whole numbers": lambda params: {**params, "bias": np.zeros(4, np.int64)},
    "NaN": lambda params: {**params, "bias": np.full(4, np.nan, np.float32)},
    "text": lambda params: {**params, "bias": np.array(["a", "b", "c", "d"])},
    "an object": lambda params: {**params, "bias": object()},
    "no mapping": lambda params: [1.0, 2.0],
    "objects": lambda params: {**params, "bias": np.array([None] * 4, object)},
    "names that are no text": lambda params: {**params, 3: np.zeros(1, np.float32)},
}


@pytest.mark.parametrize("broken", BROKEN)
def test_whatever_a_site_sends_it_alone_is_quarantined(broken):
    """By its name, with the reason; the others are aggregated as if it had not come."""
    updates = honest()
    updates["site-4"] = FLModel(params=BROKEN[broken](trained(3)))
    aggregator = RobustAggregator("comed", f=2)
    found = round_of(aggregator, updates)
    (one,) = aggregator.last.quarantined
    assert one.worker == "site-4" and one.reason
    rest = round_of(RobustAggregator("comed", f=2), {site: updates[site] for site in SITES if site != "site-4"})
    np.testing.assert_array_equal(found.params["weight"], rest.params["weight"])


def test_more_faults_than_f_leave_the_model_as_it_was():
    """In both kinds; the result does not share memory with the model."""
    for kind in ("FULL", "DIFF"):
        updates = {site: FLModel(params_type=kind, params={"weight": np.zeros(1)}) for site in SITES}
        updates[SITES[0]] = FLModel(params_type=kind, params=trained(0))
        found = round_of(RobustAggregator("comed", f=2), updates)
        assert found.params_type == kind
        np.testing.assert_array_equal(
            found.params["weight"], MODEL["weight"] if kind == "FULL" else 0 * MODEL["weight"]
        )
        assert not np.shares_memory(found.params["weight"], MODEL["weight"])


def test_too_few_sites_leave_the_model_as_it_was():
    """Krum(f=2) needs seven."""
    aggregator = RobustAggregator("krum", f=2)
    found = round_of(aggregator, {site: update for site, update in honest().items() if site != "site-1"})
    np.testing.assert_array_equal(found.params["weight"], MODEL["weight"])
    assert aggregator.last is None


def test_a_site_that_sends_twice_or_another_kind_is_quarantined():
    """What most sent is right; nobody has two votes."""
    updates = honest()
    updates["site-2"] = FLModel(params_type="DIFF", params=difference(trained(1)))
    aggregator = RobustAggregator("comed", f=2)
    aggregator.reset_stats()
    sent_to_sites(aggregator, MODEL)
    for site, update in [*updates.items(), ("site-5", FLModel(params=trained(4)))]:
        update.meta["client_name"] = site
        aggregator.accept_model(update)
    aggregator.aggregate_model()
    assert [one.worker for one in aggregator.last.quarantined] == ["site-2", "site-5"]


def test_a_site_that_sends_often_does_not_choose_the_kind():
    """Twenty differences of one site are one site's fault, and not the kind that most sent."""
    aggregator, updates = RobustAggregator("comed", f=2), honest()
    aggregator.reset_stats()
    sent_to_sites(aggregator, MODEL)
    for site, update in updates.items():
        for _ in range(20 if site == SITES[0] else 1):
            kind = "DIFF" if site == SITES[0] else "FULL"
            aggregator.accept_model(FLModel(params_type=kind, params=update.params, meta={"client_name": site}))
    found = aggregator.aggregate_model()
    assert found.params_type == ParamsType.FULL and [one.worker for one in aggregator.last.quarantined] == SITES[:1]


@pytest.mark.parametrize(
    ("rule", "f", "told"), [("Krum", 1, "selected site-"), ("CAF", 1, "without site-4"), ("Mean", 0, "all of them")]
)
def test_the_log_names_the_fewer_sites(rule, f, told, monkeypatch):
    """CAF leaves the far site a hundred thousandth of its weight; the log does not call that selected."""
    aggregator, lines = RobustAggregator(rule=rule, f=f), []
    monkeypatch.setattr(aggregator, "info", lines.append)
    updates = honest()
    if f:
        far = {name: values + 40.0 if values.dtype.kind == "f" else values for name, values in trained(3).items()}
        updates["site-4"] = FLModel(params=far)
    round_of(aggregator, updates)
    assert any(told in line for line in lines), lines


def test_claims_count_up_to_the_cap(monkeypatch):
    """A site that claims a thousand times what others do has the cap of the weight, and no more."""
    monkeypatch.setattr("mixtailor.mixing.mixtailor._told", set())  # whichever test used the mean before
    updates = honest(meta={"NUM_STEPS_CURRENT_ROUND": 10})
    for update in updates.values():
        update.meta = {"NUM_STEPS_CURRENT_ROUND": 10}
    updates["site-1"].params = trained(0, step=1.0)
    updates["site-1"].meta["NUM_STEPS_CURRENT_ROUND"] = 10_000
    with pytest.warns(mt.NotRobustWarning):
        capped = round_of(RobustAggregator("mean", f=0, claims_cap=0.25), updates)
    rows = [update.params["weight"] - MODEL["weight"] for update in updates.values()]
    expected = 0.25 * rows[0] + 0.75 * sum(rows[1:]) / (len(rows) - 1)
    np.testing.assert_allclose(capped.params["weight"] - MODEL["weight"], expected, atol=1e-5)


@pytest.mark.parametrize("claim", [None, "many", float("nan"), -1, 1e300, True, [1]])
def test_an_impossible_claim_is_a_fault_where_claims_count(claim):
    updates = honest()
    for update in updates.values():
        update.meta = {"NUM_STEPS_CURRENT_ROUND": 10}
    updates["site-3"].meta["NUM_STEPS_CURRENT_ROUND"] = claim
    counted, ignored = RobustAggregator("comed", f=2, claims_cap=0.2), RobustAggregator("comed", f=2)
    round_of(counted, updates)
    round_of(ignored, updates)
    assert [one.worker for one in counted.last.quarantined] == ["site-3"]
    assert not ignored.last.quarantined


def test_half_precision_tensors_stay_what_they_are():
    """bfloat16 in, bfloat16 out, and small differences of large weights are not lost in between."""
    torch = pytest.importorskip("torch")
    model = {"weight": torch.full((8,), 100.0, dtype=torch.bfloat16)}
    updates = {
        site: FLModel(params_type="DIFF", params={"weight": torch.full((8,), 1e-3 * (1 + place), dtype=torch.bfloat16)})
        for place, site in enumerate(SITES)
    }
    found = round_of(RobustAggregator("comed", f=2), updates, model)
    assert found.params["weight"].dtype == torch.bfloat16
    torch.testing.assert_close(found.params["weight"].float(), torch.full((8,), 4e-3), atol=1e-4, rtol=0)


def test_tensors_on_the_disk_are_read_in_ranges(tmp_path, monkeypatch):
    """FLARE's lazy references are never loaded whole, and give the same bits as tensors in memory."""
    torch = pytest.importorskip("torch")
    from nvflare.app_opt.pt import lazy_tensor_dict
    from safetensors.torch import save_file

    def offloaded(params, folder):
        folder.mkdir()
        files = {}
        for name, values in params.items():
            path = str(folder / f"{name}.safetensors")
            save_file({"kept": torch.as_tensor(values)}, path)
            files[name] = path, "kept"
        kept = lazy_tensor_dict.LazyTensorDict(files, str(folder))
        return {name: kept.make_lazy_ref(name) for name in params}

    model = {name: torch.as_tensor(values) for name, values in MODEL.items()}
    expected = round_of(RobustAggregator("krum", f=2), honest(), model)
    updates = {site: FLModel(params=offloaded(update.params, tmp_path / site)) for site, update in honest().items()}
    updates["site-7"] = honest()["site-7"]  # one in memory, as where a site sends another format
    monkeypatch.setattr(lazy_tensor_dict._LazyRef, "materialize", lambda self: pytest.fail("loaded whole"))
    aggregator = RobustAggregator("krum", f=2)
    found = round_of(aggregator, updates, model)
    assert not aggregator.last.quarantined
    for name in MODEL:
        assert torch.equal(found.params[name], expected.params[name])


def test_the_memory_knows_sites_by_name_and_survives_the_job(tmp_path):
    """Whatever the order in which they arrive; a second job goes on where the first ended."""
    kept = str(tmp_path / "memory")
    for job in range(2):
        aggregator = RobustAggregator("recommended", f=1, memory=kept)
        for number in range(15):
            order = np.random.default_rng(number).permutation(len(SITES))
            updates = {}
            for place in order:
                noise = np.random.default_rng((job, number, place)).normal(size=(4, 3)).astype(np.float32)
                push = np.ones((4, 3), np.float32) if SITES[place] == "site-6" else noise
                updates[SITES[place]] = FLModel(params={**MODEL, "weight": MODEL["weight"] + push})
            round_of(aggregator, updates)
    assert aggregator._rule.rounds("site-6") == 30
    assert aggregator._rule.suspects() == ["site-6"]


def test_the_memory_of_another_model_is_refused(tmp_path):
    """A job with a file of another job's would otherwise skip every round, and blame the sites."""
    kept = str(tmp_path / "memory")
    round_of(RobustAggregator("recommended", f=1, memory=kept), honest())
    smaller = {"weight": MODEL["weight"]}
    updates = {site: FLModel(params={"weight": update.params["weight"]}) for site, update in honest().items()}
    with pytest.raises(ValueError, match="updates with 16 coordinates, and these have 12"):
        round_of(RobustAggregator("recommended", f=1, memory=kept), updates, smaller)


OTHER_TYPES = {
    "float64": lambda values: values.astype(np.float64),
    "float16": lambda values: values.astype(np.float16),
    "big-endian": lambda values: values.astype(">f4"),
    "long double": lambda values: values.astype(np.longdouble),
    "bfloat16 of torch": lambda values: torch.from_numpy(values).bfloat16(),
    "a parameter of torch": lambda values: torch.nn.Parameter(torch.from_numpy(values)),
}


@pytest.mark.parametrize("kind", OTHER_TYPES)
def test_a_site_with_another_type_of_real_numbers_counts_as_the_others_do(kind):
    """Its values are read in the model's type, which the result keeps."""
    updates = honest()
    updates["site-4"] = FLModel(
        params={
            name: OTHER_TYPES[kind](values) if values.dtype.kind == "f" else values
            for name, values in trained(3).items()
        }
    )
    aggregator = RobustAggregator("mean", f=0)
    found, same = round_of(aggregator, updates), round_of(RobustAggregator("mean", f=0), honest())
    assert not aggregator.last.quarantined and found.params["weight"].dtype == np.float32
    np.testing.assert_allclose(found.params["weight"], same.params["weight"], atol=2e-3)  # bfloat16 has three digits


@pytest.mark.parametrize(
    "values",
    [np.full(4, 1e300), np.zeros(4, np.complex64), torch.zeros(4).to(torch.float8_e4m3fn), torch.zeros(4).to_sparse()],
    ids=["beyond float32", "complex", "float8", "sparse"],
)
def test_a_site_with_a_type_that_does_not_fit_is_quarantined(values):
    """It alone, whatever the type."""
    updates = honest()
    updates["site-4"] = FLModel(params={**trained(3), "bias": values})
    aggregator = RobustAggregator("comed", f=2)
    round_of(aggregator, updates)
    assert [one.worker for one in aggregator.last.quarantined] == ["site-4"]


def test_draws_can_be_audited(tmp_path):
    """The log has each round's draw, made after the last site, and can be verified when the job has ended."""
    from mixtailor.mixing.audit import verify

    log = str(tmp_path / "run.audit")
    aggregator = RobustAggregator("mixtailor", f=1, audit=log)
    aggregator.handle_event(EventType.START_RUN, FLContext())
    for _ in range(3):
        round_of(aggregator, honest())
    aggregator.handle_event(EventType.END_RUN, FLContext())
    report = verify(log)
    assert report.ok and "draw" in (tmp_path / "run.audit").read_text()


def test_metrics_are_medians():
    """A site cannot make the loss of the round what it likes."""
    updates = honest()
    for place, update in enumerate(updates.values()):
        update.metrics = {"loss": 1e30 if place == 0 else 0.5 + place / 100, "note": "fine"}
    assert round_of(RobustAggregator("comed", f=2), updates).metrics == {"loss": pytest.approx(0.54)}


def test_a_workflow_of_shareables_gets_the_authenticated_name():
    """ScatterAndGather calls `accept`: the name is the peer's, whatever the update says of itself."""
    aggregator = RobustAggregator("comed", f=2)
    sent_to_sites(aggregator, MODEL)
    for place, site in enumerate(SITES):
        context, peer = FLContext(), FLContext()
        peer.put("__identity_name__", site, private=False, sticky=False)
        context.set_peer_context(peer)
        shareable = DXO(DataKind.WEIGHTS, data=trained(place), meta={"client_name": "site-1"}).to_shareable()
        assert aggregator.accept(shareable, context)
    aggregator.aggregate(FLContext())
    assert aggregator.last.n == len(SITES) and aggregator.last.workers == tuple(SITES)


def test_a_job_holds_the_aggregator_as_text(tmp_path):
    """What FLARE writes into a job makes the same aggregator on the server."""
    from nvflare.job_config.api import FedJob

    job = FedJob(name="test", min_clients=3)
    job.set_app_packages(["mixtailor"])
    job.to_server(RobustAggregator("nnm >> krum(p=3)", f=2, claims_cap=0.1), id="aggregator")
    from nvflare.app_common.workflows.fedavg import FedAvg

    job.to_server(FedAvg(num_clients=3, num_rounds=1, model={"w": [0.0]}, persistor_id=""))
    job.export_job(str(tmp_path))
    (config,) = tmp_path.rglob("config_fed_server.json")
    (found,) = [part for part in json.loads(config.read_text())["components"] if part["id"] == "aggregator"]
    assert found["path"] == "mixtailor.engines.flare.aggregator.RobustAggregator"
    assert found["args"] == {"rule": "nnm >> krum(p=3)", "f": 2, "claims_cap": 0.1}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rule": mt.Krum(1)}, "needs its rule as text"),
        ({"rule": "krum", "memory": "kept"}, "needs a rule that remembers"),
        ({"rule": "krum", "audit": "log"}, "needs a rule that draws"),
        ({"rule": "krum", "claims_cap": 4.0}, "needs claims_cap above 0 and at most 1"),
        ({"rule": "krun"}, "krum"),
        ({"rule": "krum", "f": -1}, "f"),
    ],
)
def test_mistakes_are_refused_when_the_job_is_made(given, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RobustAggregator(**{"f": 1, **given})


def test_a_rule_that_needs_a_reference_is_refused_in_the_first_round():
    with pytest.raises(ValueError, match="needs the server's own update"):
        round_of(RobustAggregator("fltrust", f=2), honest())
