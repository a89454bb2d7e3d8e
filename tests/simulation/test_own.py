"""Data of one's own: arrays, .npz, CSV and folders of idx files; and the page of one simulation."""

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.experiments import Results
from mixtailor.report import draw, write
from mixtailor.simulation import (
    DataError,
    Dataset,
    Evaluation,
    Settings,
    Simulation,
    as_dataset,
    by_label,
    dirichlet,
    iid,
    load,
    shards,
    similarity,
    synthetic,
)


def test_two_arrays_are_divided_within_each_label() -> None:
    labels = np.repeat([7, 3, -1], 10)
    data = as_dataset((np.arange(30.0).reshape(30, 1), labels))
    assert data.classes == 3 and len(data) == 24 and data.test_labels.bincount().tolist() == [2, 2, 2]
    assert data.train_labels[0] == 2, "the labels in their order: -1, 3, 7"


def test_bytes_are_normalised() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 1, 3, 3)).astype(np.uint8)
    inputs, _ = as_dataset((images, np.arange(40) % 2)).train()
    assert abs(float(inputs.mean())) < 1e-4 and abs(float(inputs.std()) - 1) < 1e-2


@pytest.mark.parametrize("names", [("x_train", "y_train", "x_test", "y_test"), ("X", "y")])
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path: Path, names: tuple[str, ...], save) -> None:
    labels = np.arange(50) % 5
    parts = [np.eye(5)[labels], labels] * (len(names) // 2)
    save(tmp_path / "mine.npz", **dict(zip(names, parts, strict=True)))
    data = load(str(tmp_path / "mine.npz"))
    assert data.name == "mine" and data.classes == 5 and len(data) == (50 if len(names) == 4 else 40)


def test_csv(tmp_path: Path) -> None:
    """The label by its column's name, words as labels, columns standardised, a constant one zero."""
    lines = ["length, Class ,width,same", *(f"{k},{'cat' if k % 2 else 'dog'},{-k},4" for k in range(40))]
    (tmp_path / "pets.csv").write_text("\n".join(lines) + "\n")
    data = load(str(tmp_path / "pets.csv"))
    assert data.shape == (3,) and data.classes == 2 and len(data) == 32
    whole = np.concatenate([data.train_inputs.numpy(), data.test_inputs.numpy()])
    np.testing.assert_allclose(whole.mean(0), 0.0, atol=1e-6)
    np.testing.assert_allclose(whole.std(0), [1.0, 1.0, 0.0], atol=1e-6)
    assert data.train_labels[:2].tolist() == [1, 0], "cat, dog"


def idx(path: Path, array: np.ndarray) -> None:
    path.write_bytes(
        struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()
    )


def test_a_folder_of_idx_files(tmp_path: Path) -> None:
    folder = tmp_path / "letters"
    folder.mkdir()
    for part, count in (("train", 26), ("test", 13)):
        idx(folder / f"letters-{part}-images-idx3-ubyte", np.arange(count * 16).reshape(count, 4, 4) % 251)
        idx(folder / f"letters-{part}-labels-idx1-ubyte", np.arange(count) % 13 + 1)
    data = load(str(folder))
    assert (data.name, data.shape, data.classes, len(data)) == ("letters", (1, 4, 4), 13, 26)
    (folder / "letters-test-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="There are none for: test labels"):
        load(str(folder))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", "", "a line of names"),
        ("b.csv", "x,y\n1,2,3\n", "Line 2 of .* has 3 columns"),
        ("c.csv", "x,y\n1,a\ntwo,b\n", "Line 3 of .*could not convert"),
        ("d.npz", "no archive", "cannot be read"),
        ("e.npz", None, "There is no data file"),
    ],
)
def test_what_is_wrong_with_a_file_gets_a_sentence(tmp_path: Path, name: str, content: str | None, words: str) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words):
        load(str(tmp_path / name))


def test_npz_without_the_names_and_with_objects(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", one=np.eye(2))
    with pytest.raises(DataError, match=r"holds one\. It needs x_train"):
        load(str(tmp_path / "a.npz"))
    np.savez(tmp_path / "b.npz", x=np.array([{}], dtype=object), y=np.zeros(1))
    with pytest.raises(DataError, match="cannot be read"):
        load(str(tmp_path / "b.npz"))


def _line(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    inputs = random.standard_normal((count, 3))
    return inputs, 200_000.0 + 50_000.0 * (inputs @ [1.0, -2.0, 0.5]) + random.standard_normal(count)


def test_fractions_are_regression() -> None:
    """Targets of any size are standardised by the training part, and every fifth example is for testing."""
    data = as_dataset(_line())
    assert data.regression and data.classes == 1 and len(data) == 320 and len(data.test_labels) == 80
    assert abs(float(data.train_labels.mean())) < 1e-4 and abs(float(data.train_labels.std(correction=0)) - 1) < 1e-4


def test_a_regression_is_learnt_and_attacked() -> None:
    """R^2 near 1 with a robust rule, 0 with the mean: the same attack, own data, a network by name."""
    settings = Settings(n=9, byzantine=2, rounds=150, batch=16, learning_rate=0.05, evaluate_every=50)
    ended = [
        Simulation(_line(), "logistic", rule, Tailored(epsilon=10.0), settings=settings).run().records[-1]
        for rule in (mt.Comed(), mt.Mean())
    ]
    assert ended[0]["accuracy"] > 0.98 and ended[1]["accuracy"] == 0.0


def test_regression_by_file(tmp_path: Path) -> None:
    inputs, targets = _line(100)
    lines = [",".join(map(str, [*row, target])) for row, target in zip(inputs, targets, strict=True)]
    (tmp_path / "houses.csv").write_text("\n".join(["a,b,c,target", *lines]))
    np.savez(tmp_path / "houses.npz", x=inputs, y=targets)
    for name in ("houses.csv", "houses.npz"):
        data = load(str(tmp_path / name))
        assert data.regression and data.shape == (3,) and len(data) == 80


def test_partitions_of_regression() -> None:
    """What deals by class says what to use; what sorts by label works."""
    targets, random = _line(60)[1], np.random.default_rng(0)
    for partition in (dirichlet, by_label):
        with pytest.raises(ValueError, match=r"Use iid, or shards or similarity"):
            partition(targets, 5, random)
    for partition in (iid, shards, similarity):
        assert sorted(np.concatenate(partition(targets, 5, random))) == list(range(60))


def test_r_squared_by_hand() -> None:
    """Errors 1, 1, 0, 0 on targets -1, 1, -1, 1: a half; and 0, not minus something, for a worse model."""
    targets = torch.tensor([-1.0, 1.0, -1.0, 1.0])
    inputs = torch.tensor([[0.0], [2.0], [-1.0], [1.0]])
    data = Dataset("x", 1, inputs, targets, inputs, targets)
    evaluation = Evaluation(torch.nn.Linear(1, 1, bias=False), data)
    assert evaluation(torch.tensor([1.0])) == (0.5, 0.5)
    assert evaluation(torch.tensor([-5.0]))[0] == 0.0 and evaluation(torch.tensor([float("nan")]))[0] == 0.0


def test_partitions_take_keywords() -> None:
    """`dirichlet(alpha=0.3)` is a partition: it pickles, compares, and spreads as with the keyword in the call."""
    import pickle

    partition = dirichlet(alpha=0.3)
    assert repr(partition) == "dirichlet(alpha=0.3)" and repr(iid) == "iid"
    twin = pickle.loads(pickle.dumps(partition))  # noqa: S301  # our own bytes
    assert twin == partition and hash(twin) == hash(partition) and partition != dirichlet(alpha=0.4)
    labels = np.arange(200) % 5
    one = partition(labels, 4, np.random.default_rng(0))
    other = dirichlet(labels, 4, np.random.default_rng(0), alpha=0.3)
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    with pytest.raises(TypeError, match=r"dirichlet takes no parameter 'alfa'. Did you mean 'alpha'\?"):
        dirichlet(alfa=0.3)


def test_the_folder_of_one_simulation_has_a_page(tmp_path: Path) -> None:
    settings = Settings(n=9, byzantine=2, rounds=4, batch=4, learning_rate=0.1, evaluate_every=2, seed=3)
    where = tmp_path / "one"
    simulation = Simulation(
        synthetic(), "logistic", mt.MixTailor(mt.default_pool(f=2)), Tailored(epsilon=10.0), settings=settings,
        partition=dirichlet(alpha=0.5), folder=where,
    )  # fmt: skip
    outcome = simulation.run()
    results = Results.load(where)
    (run,) = results.runs
    assert run.complete and run.seed == 3 and run.accuracy() == pytest.approx(100 * outcome.accuracy())
    assert run.config["f"] == 2 and run.config["partition"] == {"name": "dirichlet", "alpha": 0.5}
    page = write(where).read_text(encoding="utf-8")
    assert "MixTailor" in page and "Tailored(epsilon=10)" in page and "synthetic, n = 9, f = 2" in page
    assert len(draw(where, ["svg"])) == 1
    (where / "simulation.json").unlink()
    with pytest.raises(ValueError, match="Start the simulation again with this folder"):
        Results.load(where)
    Simulation(synthetic(), "logistic", simulation.rule, Tailored(epsilon=10.0), settings=settings,
               partition=dirichlet(alpha=0.5), folder=where)  # fmt: skip
    assert len(Results.load(where).runs) == 1, "made again without training"
