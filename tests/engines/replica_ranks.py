"""What ranks do in the tests of replicas: seven or three replicas, of two shards each."""

import copy
import warnings

import numpy as np
import samples
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import mixtailor as mt
from mixtailor._checks import FaultError
from mixtailor.engines.distributed import Peers, Replicas, RobustOptimizer
from mixtailor.testing.laws import FixedKey

REPLICAS, SHARDS = 3, 2
MANY = 7  # what Bulyan needs for f = 1
WIDTHS = (21, 16)  # coordinates of each shard, not the same


def cases():
    """Every exported rule for f = 1, chains and mixtures, and a plain callable."""
    found = []
    for rule in [*samples.everything(), mt.MixTailor([lambda rows: np.median(rows, axis=0)])]:
        f = rule.declared_f()
        small = rule if f is None else rule.with_f(min(f, 1))
        if small.min_rows() > MANY:  # Krum on buckets of two needs nine
            small = rule.with_f(0)
        # Omniscient needs to know the honest ones, and three branches of a tree with Krum need nine updates for f = 0.
        if not isinstance(rule, mt.Omniscient) and small.min_rows() <= MANY:
            found.append(small)
    return found


def rows(broken=False):
    found = np.random.default_rng(8).normal(size=(MANY, sum(WIDTHS)))
    if broken:
        found[1, -1] = np.nan
    return found


def reference():
    return np.random.default_rng(9).normal(size=sum(WIDTHS))


def central(rule, given, trusted):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return rule.aggregate(given, reference=trusted, entropy=FixedKey(1))
        except FaultError as error:
            return error.rows


def _mesh(replicas=REPLICAS):
    return init_device_mesh("cpu", (replicas, SHARDS), mesh_dim_names=("replicate", "shard"))


def every_rule(rank, count):
    """What each rank has after each rule, on sound rows and with one NaN on the last shard of the second replica."""
    mesh, found = _mesh(MANY), []
    replica, shard = mesh.get_coordinate()
    own = slice(sum(WIDTHS[:shard]), sum(WIDTHS[: shard + 1]))
    for rule in cases():
        for broken in (False, True):
            tensor = torch.from_numpy(rows(broken)[replica, own].copy())
            trusted = torch.from_numpy(reference()[own].copy())
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    result = Replicas(rule, mesh, entropy=FixedKey(1)).all_reduce(tensor, reference=trusted)
                    quarantined = [(item.row, item.reason) for item in result.quarantined]
                    found.append((shard, tensor.numpy(), result.selected, result.weights, quarantined))
                except FaultError as error:
                    found.append(error.rows)
    return found


class Tiny(torch.nn.Module):
    """Two layers, and one that is used by nobody, or by one replica alone."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first = torch.nn.Linear(5, 7)
        self.second = torch.nn.Linear(7, 1)
        self.spare = torch.nn.Linear(3, 3)

    def forward(self, inputs):
        return self.second(torch.tanh(self.first(inputs)))


def batch(replica, shard, step):
    random = torch.Generator().manual_seed(100 * replica + 10 * shard + step)
    inputs = torch.randn(8, 5, generator=random)
    targets = inputs.sum(dim=1, keepdim=True)
    return inputs, -1000.0 * targets if replica == 1 else targets


def loss_of(model, replica, shard, step):
    inputs, targets = batch(replica, shard, step)
    return torch.nn.functional.mse_loss(model(inputs), targets)


RULES = {"comed": mt.Comed(), "geometric": mt.GeometricMedian(), "medoid": mt.Krum(0)}
STEPS = 3


def _sharded(mesh, **options):
    model = Tiny()
    for layer in (model.first, model.second, model.spare):
        fully_shard(layer, mesh=mesh["shard"], **options)
    return fully_shard(model, mesh=mesh["shard"], **options)


def _full(model):
    return {name: item.full_tensor().detach().numpy() for name, item in model.named_parameters()}


def _on_ranks(backward, **options):
    """Models after a few steps of FSDP2, clipped, on 3 x 2 ranks; ``backward(model, replica, shard, step)``."""
    mesh, found = _mesh(), {}
    replica, shard = mesh.get_coordinate()
    for name, rule in RULES.items():
        model = _sharded(mesh, **options)
        inner = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
        optimizer = RobustOptimizer(inner, Replicas(rule, mesh), max_norm=1.0)
        for step in range(STEPS):
            backward(model, replica, shard, step)
            optimizer.step()
            optimizer.zero_grad()
        found[name] = _full(model)
    return found


def _in_one_process(rule, gradients):
    """The same training in one process; ``gradients(model, replica, step)`` is the mean over a replica's shards."""
    model = Tiny()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.1)
    for step in range(STEPS):
        aggregate = rule([gradients(model, replica, step) for replica in range(REPLICAS)])
        for name, item in model.named_parameters():
            item.grad = aggregate.get(name)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return {name: item.detach().numpy() for name, item in model.named_parameters()}


def trained(rank, count):
    """With two accumulated batches a step."""

    def backward(model, replica, shard, step):
        for part in (0, 1):
            model.set_requires_gradient_sync(part == 1)
            (loss_of(model, replica, shard, 2 * step + part) / 2).backward()

    return _on_ranks(backward)


def centrally(rule):
    def gradients(model, replica, step):
        model.zero_grad()
        for shard in range(SHARDS):
            for part in (0, 1):
                (loss_of(model, replica, shard, 2 * step + part) / 2 / SHARDS).backward()
        return {name: item.grad.clone() for name, item in model.named_parameters() if item.grad is not None}

    return _in_one_process(rule, gradients)


HALF = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def mixed(rank, count):
    """In mixed precision."""

    def backward(model, replica, shard, step):
        inputs, targets = batch(replica, shard, step)
        torch.nn.functional.mse_loss(model(inputs).float(), targets).backward()

    return _on_ranks(backward, mp_policy=HALF)


def centrally_mixed(rule):
    """Passes in bfloat16, the mean over a replica's shards and the rule in float32."""

    def gradients(model, replica, step):
        own = {}
        for shard in range(SHARDS):
            passes = copy.deepcopy(model).to(torch.bfloat16)
            passes.zero_grad()
            inputs, targets = batch(replica, shard, step)
            torch.nn.functional.mse_loss(passes(inputs.to(torch.bfloat16)).float(), targets).backward()
            for name, item in passes.named_parameters():
                if item.grad is not None:
                    own[name] = own.get(name, 0.0) + item.grad.float() / SHARDS
        return own

    return _in_one_process(rule, gradients)


def spare(rank, count):
    """A layer that one replica alone uses: its gradient is the mean with zeros; the wholly unused one keeps none."""
    mesh = _mesh()
    replica, _ = mesh.get_coordinate()
    model = _sharded(mesh)
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), Replicas(mt.Mean(), mesh))
    loss = model.first(torch.ones(1, 5)).sum() * (1.0 + replica)
    if replica == 2:
        loss = loss + model.spare(torch.ones(1, 3)).sum()
    loss.backward()
    optimizer.step()
    grad = model.spare.weight.grad
    return model.second.weight.grad is None, grad.full_tensor().numpy(), model.first.bias.grad.full_tensor().numpy()


def half(rank, count):
    """bfloat16 parameters in the passes, float32 in the sums; a compiled model; a scaler. All replicas stay equal."""
    mesh = _mesh()
    replica, shard = mesh.get_coordinate()
    model = _sharded(mesh, mp_policy=HALF)
    optimizer = RobustOptimizer(torch.optim.SGD(model.parameters(), lr=0.05), Replicas(mt.Comed(), mesh))
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    runner, scales = torch.compile(model, backend="eager"), []
    for step in range(4):
        inputs, targets = batch(replica, shard, step)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's own, when it traces FSDP's hooks
            loss = torch.nn.functional.mse_loss(runner(inputs).float(), targets)
        scaler.scale(
            loss * (float("inf") if step == 1 or (step == 2 and replica == 0 and shard == 1) else 1.0)
        ).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return _full(model), scales, optimizer.skipped


def refused(rank, count):
    """What `Replicas` says to parameters that it cannot aggregate."""
    mesh, found = _mesh(), {}

    def said(name, model, context):
        optimizer = RobustOptimizer(torch.optim.SGD(list(model.named_parameters()), lr=0.1), context)
        try:
            optimizer.step()
        except ValueError as error:
            found[name] = str(error)

    said("whole mesh", fully_shard(torch.nn.Linear(4, 4), mesh=mesh), Replicas(mt.Comed(), mesh))
    said("not sharded", torch.nn.Linear(4, 4), Replicas(mt.Comed(), mesh))
    said("peers", fully_shard(torch.nn.Linear(4, 4), mesh=mesh["shard"]), Peers(mt.Comed()))
    try:
        Replicas(mt.Comed(), mesh, "dp")
    except ValueError as error:
        found["dimension"] = str(error)
    return found


def everything_else(rank, count):
    """All but the rules, in one group."""
    return {body.__name__: body(rank, count) for body in (trained, mixed, spare, half, refused)}
