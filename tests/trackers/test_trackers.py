"""Numbers arrive where a tracker promises, and a package that is missing is named."""

import sys
import types

import pytest

from mixtailor._checks import MissingPackageError
from mixtailor.trackers import MLflow, TensorBoard, Tracker, WeightsAndBiases, check_tracker, open_tracker


def _scalars(folder):
    """What TensorBoard itself reads in a folder."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder)).Reload()
    return {name: [(point.step, point.value) for point in found.Scalars(name)] for name in found.Tags()["scalars"]}


def test_tensorboard_reads_what_was_logged(tmp_path):
    tracker = open_tracker("tensorboard", tmp_path, "a run")
    assert isinstance(tracker, TensorBoard) and isinstance(tracker, Tracker)
    tracker.log(0, {"accuracy": 0.25, "loss": 2.0})
    tracker.log(10, {"accuracy": 0.5})
    tracker.close()
    assert _scalars(tmp_path / "tensorboard") == {"accuracy": [(0, 0.25), (10, 0.5)], "loss": [(0, 2.0)]}


def test_run_that_goes_on_continues_its_curves(tmp_path):
    for step in (1, 2):
        tracker = TensorBoard(tmp_path)
        tracker.log(step, {"accuracy": step / 4})
        tracker.close()
    assert _scalars(tmp_path)["accuracy"] == [(1, 0.25), (2, 0.5)]


@pytest.mark.filterwarnings("ignore")  # MLflow's own, of its imports and of its file store
def test_mlflow_keeps_what_was_logged(tmp_path, monkeypatch):
    """In a store of files, offline; a second run joins the experiment, and your active run is not touched."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    uri = tmp_path.as_uri()
    for name in ("first", "second"):
        tracker = MLflow(name, uri=uri)
        tracker.log(0, {"accuracy": 0.25, "loss": 2.0})
        tracker.log(10, {"accuracy": 0.5})
        tracker.close()
    assert mlflow.active_run() is None
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("mixtailor")
    runs = client.search_runs([experiment.experiment_id])
    assert sorted(run.info.run_name for run in runs) == ["first", "second"]
    for run in runs:
        history = client.get_metric_history(run.info.run_id, "accuracy")
        assert sorted((point.step, point.value) for point in history) == [(0, 0.25), (10, 0.5)]
        assert run.info.status == "FINISHED" and run.data.metrics["loss"] == 2.0


def test_weights_and_biases_is_asked_as_it_documents(tmp_path, monkeypatch):
    """A stand-in takes its place: what is checked is what we ask of it."""
    asked = []
    run = types.SimpleNamespace(
        log=lambda values, step: asked.append((step, values)), finish=lambda: asked.append("finished")
    )
    stand_in = types.ModuleType("wandb")
    stand_in.init = lambda **options: asked.append(options) or run
    monkeypatch.setitem(sys.modules, "wandb", stand_in)
    tracker = WeightsAndBiases("a run", folder=tmp_path, mode="offline")
    tracker.log(3, {"accuracy": 1})
    tracker.close()
    options = {"project": "mixtailor", "name": "a run", "dir": str(tmp_path), "reinit": "create_new", "mode": "offline"}
    assert asked == [options, (3, {"accuracy": 1.0}), "finished"]


@pytest.mark.parametrize(
    ("package", "module", "make"),
    [
        ("tensorboard", "tensorboard.compat.proto.event_pb2", lambda: TensorBoard("nowhere")),
        ("mlflow", "mlflow.entities", lambda: MLflow()),
        ("wandb", "wandb", lambda: WeightsAndBiases()),
    ],
)
def test_missing_package_is_named_with_the_command(package, module, make, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf'needs `{package}`\. .* "mixtailor\[trackers\]"'):
        make()


def test_missing_package_is_named_before_training(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match=r"The tracker 'wandb' needs `wandb`"):
        check_tracker("wandb")


def test_runs_of_an_experiment_are_tracked(tmp_path):
    """By name, from the command line down to the file that TensorBoard reads."""
    from typer.testing import CliRunner

    from mixtailor.cli._app import app
    from mixtailor.experiments import Results

    file = tmp_path / "small.toml"
    file.write_text('title = "x"\nrun = {data = "synthetic", model = "logistic", rounds = 4, rule = "comed"}')
    said = CliRunner().invoke(
        app, ["run", str(file), "--out", str(tmp_path), "--jobs", "1", "--tracker", "tensorboard"]
    )
    assert said.exit_code == 0, said.output
    (folder,) = (tmp_path / "runs").iterdir()
    accuracies = _scalars(folder / "tensorboard")["accuracy"]
    assert accuracies[0][0] == 0 and accuracies[-1][0] == 4
    assert Results.load(tmp_path / "small") is not None
