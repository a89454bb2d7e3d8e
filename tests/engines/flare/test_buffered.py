"""`BufferedController` on what sites send, without a network: late replies, broken ones, none at all."""

from types import SimpleNamespace

import numpy as np
import pytest

import mixtailor as mt

pytest.importorskip("nvflare")

from nvflare.apis.signal import Signal
from nvflare.app_common.abstract.fl_model import FLModel

from mixtailor.engines.flare import BufferedController

MODEL = {
    "weight": np.zeros((4, 3), np.float32),
    "half": np.zeros(5, np.float16),
    "steps": np.array(7, np.int64),
}
SITES = [f"site-{place}" for place in range(1, 10)]


def learnt(task, step=0.125, kind="FULL"):
    """A site's honest reply: every real number `step` larger, one more on its counter."""
    base = {name: np.zeros_like(values) if kind == "DIFF" else values for name, values in task.params.items()}
    params = {name: (values + step).astype(values.dtype) for name, values in base.items()}
    return FLModel(params_type=kind, params={**params, "steps": task.params["steps"] + 1})


class Network:
    """FLARE's part: every site replies at once, but for those that `sites` gives another behaviour."""

    def __init__(self, controller, sites=()):
        self.controller, self.sites, self.asked, self.saved = controller, dict(sites), [], []
        controller.engine = SimpleNamespace(get_clients=lambda: [SimpleNamespace(name=name) for name in SITES])
        controller.abort_signal = Signal()
        controller.load_model = lambda: FLModel(params=self.model)
        controller.save_model = lambda model: self.saved.append(model.params)
        controller.cancel_all_tasks = lambda: None
        controller.get_num_standing_tasks = lambda: 0
        controller.send_model = self.send
        controller.info = controller.warning = lambda text: None
        self.late, self.slow, self.model = [], {"site-9"}, MODEL

    def send(self, data, targets, timeout, callback):
        for site in targets:
            self.asked.append((site, data.current_round))
            made = self.sites.get(site, learnt)(data)
            if made is not None:
                made.meta = {"client_name": site}
                self.late.append((data.current_round + (site in self.slow) * 2, callback, made))
        due = [entry for entry in self.late if entry[0] <= data.current_round]
        self.late = [entry for entry in self.late if entry[0] > data.current_round]
        for _, reply, made in due:
            reply(made)

    def run(self):
        self.controller.run()
        return self.saved[-1]


def test_steps_without_waiting_for_the_slowest():
    """Site 9 replies two versions late and is used then; the model has the value that so many honest steps give."""
    network = Network(BufferedController("comed", f=2, k=6, steps=6, learning_rate=0.5))
    found = network.run()
    np.testing.assert_allclose(found["weight"], 6 * 0.5 * 0.125)
    np.testing.assert_allclose(found["half"], 6 * 0.5 * 0.125)
    assert found["half"].dtype == np.float16 and found["steps"].dtype == np.int64 and found["steps"].shape == ()
    assert found["steps"] == 7 + 6 and len(network.saved) == 6
    assert [version for site, version in network.asked if site == "site-9"] == [0, 3]
    assert network.controller.faults == {}


def test_what_a_late_site_sends_is_a_difference_to_the_model_that_it_got():
    """With differences to the newest model, a late one would point backwards."""
    controller = BufferedController("mean", f=0, k=8, steps=3)
    Network(controller).run()
    assert controller.last.n == 9  # with site 9, whose model is two versions old
    np.testing.assert_allclose(controller.last.update["weight"], 0.125, atol=1e-6)


def test_differences_count_as_they_are():
    found = Network(BufferedController("comed", f=2, k=6, steps=2), {}).run()
    kinds = dict.fromkeys(SITES[:4], lambda task: learnt(task, kind="DIFF"))
    mixed = Network(BufferedController("comed", f=2, k=6, steps=2), kinds).run()
    np.testing.assert_allclose(mixed["weight"], found["weight"])


@pytest.mark.parametrize("kind", ["FULL", "DIFF"])
@pytest.mark.parametrize("statistics", [None, ()], ids=["by values", "by differences"])
def test_stale_updates_leave_a_running_variance_positive(kind, statistics):
    """By values, each is one that some site measured. By differences, late sites reduce it once more, below zero."""

    def measured(task):
        own = {name: values for name, values in task.params.items() if "var" in name}
        share = np.float16(0.1) if kind == "FULL" else np.float16(-0.9)
        taken = {name: (share * values).astype(values.dtype) for name, values in own.items()}
        return FLModel(params_type=kind, params={**learnt(task, kind=kind).params, **taken})

    def hostile(task):
        return FLModel(params={**task.params, "norm.running_var": np.full(3, -1e30, np.float32)})

    more = {} if statistics is None else {"statistics": statistics}
    controller = BufferedController("comed", f=2, k=5, steps=6, **more)
    network = Network(controller, {**dict.fromkeys(SITES, measured), "site-1": hostile, "site-2": hostile})
    network.slow = {"site-6", "site-7", "site-8", "site-9"}
    network.model = {**MODEL, "norm.running_var": np.ones(3, np.float32), "half.running_var": np.ones(2, np.float16)}
    network.run()
    least = min(model[name].min() for model in network.saved for name in ("norm.running_var", "half.running_var"))
    assert least > 0 if statistics is None else least < 0
    assert network.saved[-1]["half.running_var"].dtype == np.float16


BROKEN = {
    "nothing": lambda task: FLModel(params=None, metrics={"loss": 1.0}),
    "missing": lambda task: FLModel(params={"weight": MODEL["weight"]}),
    "extra": lambda task: FLModel(params={**learnt(task).params, "more": np.zeros(2)}),
    "shape": lambda task: FLModel(params={**learnt(task).params, "weight": np.zeros((3, 4), np.float32)}),
    "kind": lambda task: FLModel(params={**learnt(task).params, "steps": np.array(1.5)}),
    "text": lambda task: FLModel(params={**learnt(task).params, "weight": "garbage"}),
    "silence": lambda task: None,
}


@pytest.mark.parametrize("broken", BROKEN)
def test_two_sites_that_send_no_update_change_nothing(broken):
    """They are asked once, not again and again: patience is longer than the test."""
    hostile = dict.fromkeys(["site-2", "site-4"], BROKEN[broken])
    network = Network(BufferedController("trimmed_mean", f=2, k=6, steps=4), hostile)
    np.testing.assert_allclose(network.run()["weight"], 4 * 0.125)
    assert network.controller.faults == ({} if broken == "silence" else {"site-2": 1, "site-4": 1})
    assert sum(site in hostile for site, _ in network.asked) == 2


def test_numbers_that_are_not_finite_are_quarantined_by_name():
    """A fault that is found when it is aggregated; the step is taken without it."""

    def bad(task):
        return FLModel(params={**learnt(task).params, "weight": np.full((4, 3), np.nan, np.float32)})

    network = Network(BufferedController("comed", f=2, k=6, steps=3), {"site-2": bad})
    np.testing.assert_allclose(network.run()["weight"], 3 * 0.125)
    assert [found.worker for found in network.controller.last.quarantined] == ["site-2"]


def picky(rows):
    """A rule of somebody's own, that fails on what one site sends."""
    if np.abs(rows).max() > 1e3:
        raise RuntimeError("too much")
    return np.median(rows, axis=0)


def broken(rows):
    raise ZeroDivisionError


def test_a_rule_that_fails_on_what_sites_sent_does_not_end_the_job():
    """The model stays as it was for that step, all sites are asked again, and the others of the steps are made."""

    def far_once(task):
        return learnt(task, step=1e4 if task.current_round == 1 else 0.125)

    controller = BufferedController(f"{__name__}:picky", f=0, k=8, steps=5, timeout=30.0)
    told = []
    network = Network(controller, {"site-2": far_once})
    controller.warning = told.append
    np.testing.assert_allclose(network.run()["weight"], 4 * 0.125)
    assert len(network.saved) == 5
    assert any("failed on what sites sent (RuntimeError: too much)" in line for line in told)


def test_more_faults_than_f_cost_one_step():
    """Three sites send NaN once, f = 2."""

    def nan_once(task):
        made = learnt(task)
        if task.current_round == 1:
            made.params["weight"] = np.full((4, 3), np.nan, np.float32)
        return made

    controller = BufferedController("trimmed_mean", f=2, k=8, steps=5, timeout=30.0)
    network = Network(controller, dict.fromkeys(SITES[:3], nan_once))
    np.testing.assert_allclose(network.run()["weight"], 4 * 0.125)


def test_a_rule_that_fails_on_anything_is_refused_before_a_model_is_sent():
    network = Network(BufferedController(f"{__name__}:broken", f=0, k=8, steps=5))
    with pytest.raises(ZeroDivisionError):
        network.run()
    assert network.asked == []


def test_hostile_models_are_tolerated_with_the_last_update_of_every_site():
    def far(task):
        return learnt(task, step=-1e4)

    controller = BufferedController("recommended", f=2, k=6, uses="kept", oldest=10, steps=5)
    found = Network(controller, {"site-2": far, "site-4": far}).run()
    np.testing.assert_allclose(found["weight"], 5 * 0.125, rtol=0.2)


def test_training_ends_by_its_timeout_and_by_an_abort():
    def silent(task):
        return None

    for name, value in [("timeout", 0.5), ("abort", None)]:
        controller = BufferedController("comed", f=2, k=6, steps=3, timeout=value)
        network = Network(controller, dict.fromkeys(SITES, silent))
        if name == "abort":
            controller.abort_signal.trigger("by hand")
        controller.run()
        assert network.saved == []


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"k": 4}, r"TrimmedMean\(f=2\) tolerates 0 of k = 4 updates"),
        ({"k": 0}, "k"),
        ({"uses": "all"}, "uses="),
        ({"steps": 0}, "steps"),
        ({"timeout": -1.0}, "timeout"),
        ({"momentum": 1.0}, "momentum"),
    ],
)
def test_wrong_arguments_are_refused_when_the_job_is_made(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        BufferedController(**{"rule": "trimmed_mean", "f": 2, "k": 6, "steps": 3, **options})


def test_a_rule_has_to_be_text():
    with pytest.raises(TypeError, match="BufferedController needs its rule as text"):
        BufferedController(mt.Comed(), f=2, k=6, steps=3)
