"""Replicas: models that are sharded over some ranks and replicated over others, as `fully_shard` on a mesh makes them.

Sound against faulty gradients and poisoned data on honest hosts. NOT sound against a compromised rank, as among peers.
"""

from typing import Any, final

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from mixtailor._checks import refuse
from mixtailor.engines.distributed.lane import Lane
from mixtailor.engines.distributed.peers import reduced
from mixtailor.engines.distributed.ranks import Ranks
from mixtailor.engines.distributed.wrappers import is_dtensor
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.request import KeySource, OnFault

__all__ = ["Replicas"]


@final
class Replicas:
    """The replicas of a sharded model as workers and aggregators, for `RobustOptimizer`.

    The n updates are the replicas. Each replica is divided over its ranks, so that numbers between updates are summed
    over shards and replicas alike: all ranks decide the same.

    Parameters
    ----------
    rule : rule or callable
        What aggregates the updates of the replicas.
    mesh : DeviceMesh
        Replicas in one dimension, shards in all others.
    dimension : str
        The name of the replicas' dimension.
    entropy : KeySource, optional
        Where the first rank takes keys from: the rule's own source by default.
    on_fault : {"raise", "skip"}
        With "skip", a round with more proven faults than the rule tolerates changes nothing.

    Examples
    --------
    On a mesh of one; with more ranks, the lines are the same.

    >>> import mixtailor as mt
    >>> from torch.distributed.device_mesh import init_device_mesh
    >>> from mixtailor.engines.distributed import RobustOptimizer
    >>> dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
    >>> replicas = Replicas(mt.Comed(), mesh)
    >>> gradient = torch.tensor([1.0, 2.0])
    >>> replicas.all_reduce(gradient).quarantined, gradient
    ((), tensor([1., 2.]))
    >>> dist.destroy_process_group()

    Notes
    -----
    Shard with ``fully_shard(module, mesh=mesh["shard"])``. On the whole mesh, FSDP would average over the replicas by
    itself, before any rule; such parameters are refused. So are parameters that are not divided over all of a replica's
    ranks: their coordinates would count several times.
    """

    def __init__(
        self,
        rule: Any,
        mesh: DeviceMesh,
        dimension: str = "replicate",
        *,
        entropy: KeySource | None = None,
        on_fault: OnFault = "raise",
    ) -> None:
        names = mesh.mesh_dim_names or ()
        if dimension not in names:
            refuse(f"Replicas needs a mesh with a dimension {dimension!r}, and this one has {names}.")
        self.rule, self.mesh, self.dimension = rule, mesh, dimension
        self.entropy = entropy
        self.on_fault: OnFault = on_fault
        # Rows are replicas, columns are the ranks of each.
        table = mesh.mesh.movedim(names.index(dimension), 0).reshape(mesh.size(names.index(dimension)), -1)
        self._group = None
        if mesh.size() != dist.get_world_size():
            self._group = dist.new_group(sorted(table.flatten().tolist()), use_local_synchronization=True)
        self._lane = mesh.get_group(dimension)
        places = {rank: (update, shard) for update, row in enumerate(table.tolist()) for shard, rank in enumerate(row)}
        self._seats = [places[rank] for rank in sorted(places)]
        self._shards = table.shape[1]

    def ranks(self) -> Ranks:
        """The ranks that take part in a call."""
        return Ranks(0, self._group, Lane(self._lane), self._seats)

    def local(self, parameter: torch.Tensor, name: str) -> torch.Tensor:
        """What this rank holds of a parameter or a gradient."""
        if not is_dtensor(parameter):
            if self._shards == 1:
                return parameter
            refuse(
                f"{name} is not sharded: each of the {self._shards} ranks of a replica has a gradient of its own for "
                'it. Shard it with fully_shard(module, mesh=mesh["shard"]).'
            )
        given: Any = parameter  # DTensor, which is not imported here
        if self.dimension in (given.device_mesh.mesh_dim_names or ()):
            refuse(
                f"{name} lives on the dimension {self.dimension!r} too, where FSDP averages before any rule sees it. "
                'Shard over the other dimensions alone: fully_shard(module, mesh=mesh["shard"]).'
            )
        if given.device_mesh.size() != self._shards or not all(
            place.is_shard() or given.device_mesh.size(at) == 1 for at, place in enumerate(given.placements)
        ):
            refuse(
                f"{name} needs to be divided over all {self._shards} ranks of a replica, and has {given.placements} on "
                f"{given.device_mesh}."
            )
        local: torch.Tensor = given.to_local()
        return local

    def all_reduce(self, tensor: torch.Tensor, *, reference: torch.Tensor | None = None) -> Aggregation:
        """Replace what each rank holds of its replica's update by the rule's result on all of them, in place.

        Parameters
        ----------
        tensor : Tensor
            This rank's shard of an update, flat or not.
        reference : Tensor, optional
            What the caller trusts, on this rank's shard; the same on all replicas.
        """
        result, _ = reduced(
            tensor, self.rule, self.ranks(), reference=reference, entropy=self.entropy, on_fault=self.on_fault
        )
        return result
