"""Gradients of all workers together: those that each would compute alone."""

import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Literal

import pytest
import torch
from torch import nn

from mixtailor import Comed
from mixtailor.attacks import Tailored
from mixtailor.kernels import threads
from mixtailor.simulation import (
    Dataset,
    Layout,
    LocalTraining,
    Settings,
    Simulation,
    WorkerGradients,
    cnn,
    logistic,
    mlp,
    small_cnn,
)
from mixtailor.simulation.layerwise import is_sequence
from mixtailor.simulation.perceptron import is_perceptron
from mixtailor.simulation.sparse import SparseBatch, SparseInputs

Method = Literal["layers", "vmap", "loop"]
METHODS: tuple[Method, ...] = ("layers", "vmap", "loop")
again = nn.Tanh()
SEQUENCES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "paper's network": (lambda: cnn((1, 28, 28), 4, dropout=0.0), (1, 28, 28)),
    "paper's network in colour": (lambda: cnn((3, 32, 32), 4, dropout=0.0), (3, 32, 32)),
    "small network": (lambda: small_cnn((2, 8, 8), 4), (2, 8, 8)),
    "one hidden layer": (lambda: mlp((5,), 4), (5,)),
    "logistic": (lambda: logistic((2, 3), 4), (2, 3)),
    "strides, groups, no bias": (
        lambda: nn.Sequential(
            nn.Conv2d(4, 6, 3, stride=2, padding=1, groups=2, bias=False),
            nn.GELU(),
            nn.Conv2d(6, 4, 2, dilation=2),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        ),
        (4, 9, 7),
    ),
    "nested, a layer in two places": (
        lambda: nn.Sequential(nn.Sequential(nn.Linear(6, 5), again), nn.Sequential(nn.Linear(5, 4), again)),
        (6,),
    ),
    "full layers on sequences": (
        lambda: nn.Sequential(nn.Linear(3, 5), nn.ReLU(inplace=True), nn.Linear(5, 2, bias=False), nn.Flatten()),
        (2, 3),
    ),
}


def round_of(shape: tuple[int, ...], n: int = 3, batch: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, batch, *shape), torch.randint(0, 4, (n, batch))


def alone(
    model: nn.Module, weights: torch.Tensor, inputs: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """One worker's gradient and loss in double precision, the way of a textbook."""
    model = model.double()
    Layout.of(model).load(model, weights.double())
    model.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs.double()), labels)
    loss.backward()
    gradient = torch.cat([value.grad.flatten() for value in model.parameters() if value.grad is not None])
    return gradient, float(loss.detach())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("own_weights", [False, True])
@pytest.mark.parametrize("name", SEQUENCES)
def test_each_row_is_what_the_worker_would_compute_alone(name: str, own_weights: bool, method: Method) -> None:
    make, shape = SEQUENCES[name]
    model = make()
    assert is_sequence(model)
    inputs, labels = round_of(shape)
    weights = Layout.of(model).flatten(model)
    if own_weights:
        weights = weights + 0.05 * torch.randn(len(inputs), len(weights))
    matrix, losses = WorkerGradients(model, method=method)(weights, inputs, labels)
    for i in range(len(inputs)):
        own = weights[i] if own_weights else weights
        gradient, loss = alone(make(), own, inputs[i], labels[i])
        assert torch.allclose(matrix[i].double(), gradient, atol=2e-6, rtol=1e-4)
        assert abs(float(losses[i]) - loss) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_any_loss_that_is_a_mean_over_the_batch_will_do(method: Method) -> None:
    """Squared errors of targets that are no labels, against the gradient worked out by hand."""
    model = nn.Sequential(nn.Linear(3, 2, bias=False))
    inputs, targets = torch.randn(2, 4, 3), torch.randn(2, 4, 2)
    weights = Layout.of(model).flatten(model)
    matrix, losses = WorkerGradients(model, nn.functional.mse_loss, method=method)(weights, inputs, targets)
    errors = inputs @ weights.view(2, 3).T - targets
    assert torch.allclose(losses, (errors**2).mean((1, 2)))
    assert torch.allclose(matrix.view(2, 2, 3), errors.transpose(1, 2) @ inputs / 4, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunk", [1, 2, 7])
def test_chunks_change_nothing_without_dropout(method: Method, chunk: int) -> None:
    model = small_cnn((1, 8, 8), 4)
    inputs, labels = round_of((1, 8, 8), n=5)
    weights = Layout.of(model).flatten(model)
    whole, losses = WorkerGradients(model, method=method)(weights, inputs, labels)
    parts, part_losses = WorkerGradients(model, method=method, chunk=chunk)(weights, inputs, labels)
    assert torch.allclose(whole, parts, atol=1e-6) and torch.allclose(losses, part_losses)


def test_large_models_are_computed_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chunk follows from shapes: 2 (activations x batch + d) numbers of 4 bytes for each worker."""
    model = logistic((6,), 4)
    inputs, labels = round_of((6,), n=5, batch=3)
    per_worker = 4 * 2 * ((6 + 6 + 4) * 3 + 28)
    monkeypatch.setattr("mixtailor.simulation.gradients.MEMORY", 2 * per_worker)
    sizes = []
    gradients = WorkerGradients(model)
    compute = gradients._compute
    monkeypatch.setattr(gradients, "_compute", lambda *call: (sizes.append(len(call[1])), compute(*call))[1])
    gradients(Layout.of(model).flatten(model), inputs, labels)
    assert sizes == [2, 2, 1]


@pytest.mark.parametrize("method", METHODS)
def test_dropout_differs_between_workers_and_repeats_with_the_seed(method: Method) -> None:
    """Equal batches give different rows; the same seed gives the same bits; nobody else's randomness moves."""
    model = cnn((1, 28, 28), 4)
    inputs, labels = round_of((1, 28, 28), n=1)
    inputs, labels = inputs.expand(3, -1, -1, -1, -1), labels.expand(3, -1)
    weights = Layout.of(model).flatten(model)
    before = torch.get_rng_state()
    first = WorkerGradients(model, method=method)(weights, inputs, labels, seed=4)[0].clone()
    gradients = WorkerGradients(model, method=method)
    other = gradients(weights, inputs, labels, seed=5)[0].clone()
    second = gradients(weights, inputs, labels, seed=4)[0]
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first, second) and not torch.equal(first, other)
    assert len({tuple(row.tolist()) for row in first}) == 3


@pytest.mark.parametrize("method", METHODS)
def test_dropout_is_unbiased_the_same_way_in_each_method(method: Method) -> None:
    """The mean of many rows with dropout is the gradient of one batch that repeats the examples very often."""
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(6, 4))
    inputs, labels = round_of((6,), n=1)
    weights = Layout.of(model).flatten(model)
    many, _ = WorkerGradients(model, method=method)(weights, inputs.expand(300, -1, -1), labels.expand(300, -1), seed=1)
    often = inputs.repeat(1, 10_000, 1), labels.repeat(1, 10_000)
    expected, _ = WorkerGradients(model, method="loop")(weights, *often, seed=2)
    assert ((many.mean(0) - expected[0]).abs() < 6 * many.std(0) / 300**0.5 + 1e-4).all()


def test_a_resumed_run_draws_the_same_in_its_first_round() -> None:
    """What is measured and tried once, at the first call, uses randomness of its own."""

    class Restless(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.full = nn.Linear(3, 4)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.full(nn.functional.dropout(values, 0.5, training=True))

    model = Restless()
    inputs, labels = round_of((3,))
    weights = Layout.of(model).flatten(model)
    running, resumed = WorkerGradients(model), WorkerGradients(model)
    running(weights, inputs, labels, seed=1)
    torch.manual_seed(9)
    expected = running(weights, inputs, labels)[0].clone()
    torch.manual_seed(9)
    assert torch.equal(resumed(weights, inputs, labels)[0], expected)


class Residual(nn.Module):
    """A module of the general kind: a skip, a normalisation, a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(2, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)
        self.scale = nn.Parameter(torch.tensor(0.7))
        self.last = nn.Linear(4, 4)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = torch.relu(self.norm(self.first(values)))
        values = values + self.scale * self.second(values)
        return self.last(values.mean((2, 3)))


@pytest.mark.parametrize("own_weights", [False, True])
def test_any_module_goes_by_vmap(own_weights: bool) -> None:
    model = Residual()
    inputs, labels = round_of((2, 6, 6))
    weights = Layout.of(model).flatten(model)
    weights = weights + 0.1 * torch.randn(3, len(weights)) if own_weights else weights
    gradients = WorkerGradients(model)
    assert gradients.method == "vmap"
    matrix, _ = gradients(weights, inputs, labels)
    for i in range(3):
        gradient, _ = alone(Residual(), weights[i] if own_weights else weights, inputs[i], labels[i])
        assert torch.allclose(matrix[i].double(), gradient, atol=2e-6, rtol=1e-4)


def test_what_vmap_cannot_follow_goes_one_by_one() -> None:
    """A branch on a value stops vmap; the loop takes over, and says so once."""

    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.full = nn.Linear(3, 4)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.full(values if float(values.sum()) > 0 else -values)

    model = Branching()
    inputs, labels = round_of((3,))
    weights = Layout.of(model).flatten(model)
    gradients = WorkerGradients(model)
    with pytest.warns(UserWarning, match="one by one"):
        matrix, _ = gradients(weights, inputs, labels)
    matrix = matrix.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(gradients(weights, inputs, labels)[0], matrix)
    for i in range(3):
        assert torch.allclose(matrix[i].double(), alone(Branching(), weights, inputs[i], labels[i])[0], atol=1e-6)


def test_a_mistake_in_the_model_is_not_hidden() -> None:
    model = Residual()
    with pytest.raises(RuntimeError, match="expected input"):
        WorkerGradients(model)(Layout.of(model).flatten(model), *round_of((3, 6, 6)))


@pytest.mark.parametrize(
    "layer", [nn.BatchNorm2d(3), nn.SyncBatchNorm(3), nn.InstanceNorm2d(3, track_running_stats=True)]
)
def test_running_statistics_are_refused_with_what_to_use(layer: nn.Module) -> None:
    with pytest.raises(ValueError, match=rf"{type(layer).__name__} at '1'.*torch.nn.GroupNorm"):
        WorkerGradients(nn.Sequential(nn.Conv2d(1, 3, 3), layer))


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 4), nn.Softmax(0)),
        nn.Sequential(nn.Flatten(0), nn.Linear(4, 4)),
        nn.Sequential(nn.Conv2d(1, 1, 3, padding_mode="circular")),
        nn.Sequential(nn.Linear(4, 4), nn.GroupNorm(2, 4)),
        nn.Sequential(*[nn.Linear(4, 4)] * 2),
        nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))),
        nn.Linear(4, 4),
    ],
)
def test_the_fast_way_is_only_for_layers_known_to_keep_examples_apart(model: nn.Module) -> None:
    assert not is_sequence(model)
    with pytest.raises(ValueError, match="layers"):
        WorkerGradients(model, method="layers")


def test_hooks_are_left_to_the_general_way() -> None:
    model = nn.Sequential(nn.Linear(4, 4))
    assert is_sequence(model)
    model[0].register_forward_hook(lambda *_: None)
    assert not is_sequence(model)


def test_images_without_channels_are_refused() -> None:
    """torch would take a batch of such images for one image with many channels, and mix the workers."""
    model = nn.Sequential(nn.Conv2d(15, 2, 3), nn.Flatten(), nn.Linear(72, 4))
    with pytest.raises(ValueError, match=r"Conv2d at '0' needs 3 dimensions"):
        WorkerGradients(model, chunk=3)(Layout.of(model).flatten(model), *round_of((8, 8)))


def test_the_buffer_is_reused_and_out_is_written_in_place() -> None:
    model = logistic((3,), 4)
    inputs, labels = round_of((3,))
    weights = Layout.of(model).flatten(model)
    gradients = WorkerGradients(model)
    first = gradients(weights, inputs, labels)[0]
    assert gradients(weights, inputs, labels)[0].data_ptr() == first.data_ptr()
    assert gradients(weights, inputs[:2], labels[:2])[0].data_ptr() == first.data_ptr()
    everybody = torch.full((5, 16), 9.0)
    matrix, _ = gradients(weights, inputs, labels, out=everybody[:3])
    assert matrix.data_ptr() == everybody.data_ptr() and torch.equal(everybody[:3], first)
    assert (everybody[3:] == 9).all()


def test_the_model_given_is_never_touched() -> None:
    model = cnn((1, 28, 28), 4).eval()
    layout = Layout.of(model)
    kept = layout.flatten(model)
    WorkerGradients(model)(torch.zeros(layout.d), *round_of((1, 28, 28)))
    assert torch.equal(layout.flatten(model), kept) and not model.training
    assert all(value.grad is None for value in model.parameters())


def test_wrong_shapes_are_told() -> None:
    model = logistic((3,), 4)
    gradients = WorkerGradients(model)
    inputs, labels = round_of((3,))
    with pytest.raises(ValueError, match=r"\(n, batch, ...\)"):
        gradients(torch.zeros(16), inputs, labels[:2])
    with pytest.raises(ValueError, match=r"\(3, 16\) and have \(2, 16\)"):
        gradients(torch.zeros(2, 16), inputs, labels)
    with pytest.raises(ValueError, match="out needs shape"):
        gradients(torch.zeros(16), inputs, labels, out=torch.zeros(3, 15))
    with pytest.raises(ValueError, match="chunk"):
        WorkerGradients(model, chunk=0)


@pytest.mark.parametrize("method", METHODS)
def test_local_training_is_sgd_on_each_worker(method: Method) -> None:
    """tau steps of torch's own SGD, with momentum and weight decay, from the same start."""
    model = small_cnn((1, 8, 8), 4)
    layout = Layout.of(model)
    start = layout.flatten(model)
    batches = [round_of((1, 8, 8)) for _ in range(4)]
    train = LocalTraining(WorkerGradients(model, method=method), learning_rate=0.1, momentum=0.9, weight_decay=0.01)
    models, losses = train(start, iter(batches))
    assert losses.shape == (3, 4)
    for i in range(3):
        layout.load(model, start)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)
        for inputs, labels in batches:
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(inputs[i]), labels[i]).backward()
            optimiser.step()
        assert torch.allclose(models[i], layout.flatten(model), atol=1e-5)


def test_local_training_repeats_and_writes_where_told() -> None:
    model = cnn((1, 28, 28), 4)
    start = Layout.of(model).flatten(model)
    kept = start.clone()
    batches = [round_of((1, 28, 28)) for _ in range(2)]
    train = LocalTraining(WorkerGradients(model), learning_rate=0.1)
    out = torch.zeros(3, len(start))
    models, _ = train(start, batches, seed=3, out=out)
    assert models.data_ptr() == out.data_ptr() and torch.equal(start, kept)
    assert torch.equal(train(start, batches, seed=3)[0], out)
    assert not torch.equal(train(start, batches, seed=4)[0], out)


def test_local_training_refuses_what_makes_no_sense() -> None:
    gradients = WorkerGradients(logistic((3,), 4))
    with pytest.raises(ValueError, match="tau >= 1"):
        LocalTraining(gradients, learning_rate=0.1)(torch.zeros(16), [])
    for options in ({"learning_rate": 0.0}, {"learning_rate": 1.0, "momentum": 1.0}):
        with pytest.raises(ValueError, match="learning_rate > 0"):
            LocalTraining(gradients, **options)


@pytest.mark.parametrize("widths", [(6, 4), (6, 5, 4), (6, 7, 5, 4)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_perceptron_without_autograd_has_the_same_bits(widths: tuple[int, ...], bias: bool) -> None:
    """The written-out backward pass calls what autograd calls."""
    layers: list[nn.Module] = [nn.Flatten()]
    for into, out in pairwise(widths):
        layers += [nn.Linear(into, out, bias=bias), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    inputs, labels = round_of((2, 3))
    weights = Layout.of(model).flatten(model)
    direct, general = WorkerGradients(model), WorkerGradients(model, lambda o, y: nn.functional.cross_entropy(o, y))
    assert is_perceptron(model) and not is_perceptron(nn.Sequential(*layers[:-1], nn.Dropout()))
    rows, losses = direct(weights, inputs, labels, seed=0)
    with torch.enable_grad():
        general.loss = nn.functional.cross_entropy
        others, other_losses = general(weights, inputs, labels, seed=0)
    assert torch.equal(rows, others) and torch.equal(losses, other_losses)
    before = torch.get_rng_state()
    direct(weights, inputs, labels, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


def images(share: float, count: int = 60) -> Dataset:
    """Bytes of which a share is not zero, normalised as MNIST's are."""
    raw = torch.randint(1, 256, (count, 1, 6, 7)) * (torch.rand(count, 1, 6, 7) < share)
    inputs, labels = raw.to(torch.uint8), torch.randint(0, 4, (count,))
    return Dataset("images", 4, inputs, labels, inputs, labels, unit=255.0, mean=(0.13,), deviation=(0.31,))


def hidden_layers(*widths: int, bias: bool = True) -> nn.Sequential:
    """A perceptron on images of 42 numbers."""
    layers: list[nn.Module] = [nn.Flatten()]
    for into, out in pairwise((42, *widths)):
        layers += [nn.Linear(into, out, bias=bias), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


@pytest.mark.parametrize(
    "make",
    [
        lambda: mlp((1, 6, 7), 4, hidden=11),
        lambda: mlp((1, 6, 7), 4, hidden=8),
        lambda: logistic((1, 6, 7), 4),
        lambda: hidden_layers(11, 4, bias=False),
        lambda: hidden_layers(11, 9, 4),
        lambda: hidden_layers(130, 30),
    ],
)
def test_examples_without_their_zeros_give_the_same_gradients(make: Callable[[], nn.Module]) -> None:
    """Up to rounding, those that each worker would compute alone."""
    data, model = images(0.2), make()
    inputs = SparseInputs.of(data)
    assert inputs is not None
    chosen = torch.randint(0, 60, (3, 5))
    weights, gradients = Layout.of(model).flatten(model), WorkerGradients(model)
    matrix, losses = gradients(weights, SparseBatch(inputs, chosen.numpy()), data.train_labels[chosen])
    for i in range(3):
        gradient, loss = alone(make(), weights, *data.train(chosen[i]))
        assert torch.allclose(matrix[i].double(), gradient, atol=2e-6, rtol=1e-4)
        assert abs(float(losses[i]) - loss) < 1e-5


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads divide the workers, and every sum belongs to one worker."""
    data = images(0.2)
    inputs = SparseInputs.of(data)
    assert inputs is not None
    gradients = WorkerGradients(mlp((1, 6, 7), 4))
    weights, chosen = torch.randn(gradients.layout.d), torch.randint(len(data), (7, 5))
    found = []
    for count in (1, 2, 3, 50):
        monkeypatch.setattr(threads.config, "NUMBA_NUM_THREADS", count)
        batch = SparseBatch(inputs, chosen.numpy())
        matrix, losses = gradients(weights, batch, data.train_labels[chosen], out=torch.empty(7, len(weights)))
        found.append(torch.cat([matrix.flatten(), losses]))
    assert all(torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("place", ["1.weight", "1.bias", "3.weight", "3.bias"])
def test_weights_that_are_not_finite_show_in_the_gradients(wrong: float, place: str) -> None:
    """Training that has come apart is told from the gradients, with compressed examples as with dense ones."""
    data, model = images(0.2), hidden_layers(11, 4)
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.abs_()
            if name == place:
                value.fill_(wrong)
    inputs = SparseInputs.of(data)
    assert inputs is not None
    chosen = torch.randint(0, 60, (3, 5))
    weights, gradients, labels = Layout.of(model).flatten(model), WorkerGradients(model), data.train_labels[chosen]
    sparse, losses = gradients(weights, SparseBatch(inputs, chosen.numpy()), labels, out=torch.zeros(3, len(weights)))
    dense, others = gradients(weights, data.train(chosen)[0], labels)
    assert not torch.isfinite(sparse.sum()) and not torch.isfinite(dense.sum())
    assert not torch.isfinite(losses.sum()) and not torch.isfinite(others.sum())


def test_only_what_gains_is_compressed() -> None:
    assert images(0.2).sparse is not None
    assert images(0.9).sparse is None
    plain, labels = torch.zeros(5, 3), torch.tensor([0, 1, 0, 1, 0])
    assert Dataset("floats", 2, plain, labels, plain, labels).sparse is None
    assert WorkerGradients(mlp((1, 6, 7), 4)).takes_sparse
    assert not WorkerGradients(small_cnn((1, 6, 7), 4)).takes_sparse
    assert not WorkerGradients(mlp((1, 6, 7), 4).double()).takes_sparse


def test_training_without_zeros_is_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run on compressed examples ends where the dense one does, up to rounding."""
    data = images(0.2)
    settings = Settings(n=7, byzantine=2, rounds=12, batch=6, learning_rate=0.1, evaluate_every=6)

    def run() -> torch.Tensor:
        return Simulation(data, "mlp", Comed(), Tailored(epsilon=0.5), settings=settings).run().weights

    compressed = run()
    monkeypatch.setattr(WorkerGradients, "takes_sparse", False)
    dense = run()
    assert torch.allclose(compressed, dense, atol=1e-5)
    assert not torch.equal(compressed, dense)
