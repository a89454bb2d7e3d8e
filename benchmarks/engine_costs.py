"""What a rule costs over an engine's own all_reduce: `python -m benchmarks.engine_costs fsdp2` or `torchft`.

Real processes with gloo on this machine: for FSDP2 replicas x shards, for torchft replicas with a manager each. Each
measures, in turns, the engine's own reduction of a vector and that by rules, from a vector in place to the result in
place. Printed are the median over the repetitions, of the slowest process in each, and the median of the ratios of one
turn, with quartiles.
"""

import argparse
import datetime
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
import torch.distributed as dist

import mixtailor as mt

RULES = {"comed": mt.Comed(), "krum": mt.Krum(0), "geometric median": mt.GeometricMedian()}
WARM = 3
Times = dict[str, list[float]]


def _timed(calls: dict[str, Callable[[torch.Tensor], object]], d: int, repeats: int, rank: int) -> Times:
    """Seconds of the slowest process for each call, in turns: whoever else computes then slows all of them alike."""
    own = torch.randn(d, generator=torch.Generator().manual_seed(rank))
    found: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(WARM + repeats):
        for name, call in calls.items():
            tensor = own.clone()
            dist.barrier()
            start = time.perf_counter()
            call(tensor)
            taken = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
            dist.all_reduce(taken, op=dist.ReduceOp.MAX)
            if repeat >= WARM:
                found[name].append(float(taken))
    return found


def _fsdp2(rank: int, options: argparse.Namespace) -> Times:
    from torch.distributed.device_mesh import init_device_mesh

    from mixtailor.engines.distributed import Replicas

    mesh = init_device_mesh("cpu", (options.replicas, options.shards), mesh_dim_names=("replicate", "shard"))
    group = mesh.get_group("replicate")

    def plain(tensor: torch.Tensor) -> None:
        dist.all_reduce(tensor, group=group)
        tensor /= options.replicas

    calls: dict[str, Callable[[torch.Tensor], object]] = {"all_reduce of the replicas": plain}
    calls.update({name: Replicas(rule, mesh).all_reduce for name, rule in RULES.items()})
    return _timed(calls, options.d // options.shards, options.repeats, rank)


def _torchft(rank: int, options: argparse.Namespace) -> Times:
    from torchft import Manager, ProcessGroupGloo

    from mixtailor.engines.torchft import managed_all_reduce

    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=datetime.timedelta(seconds=60)),
        load_state_dict=lambda state: None,
        state_dict=dict,
        min_replica_size=options.replicas,
        use_async_quorum=False,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=options.lighthouse,
        replica_id=f"replica{rank}",
    )
    manager.start_quorum()
    calls: dict[str, Callable[[torch.Tensor], object]] = {
        "manager.allreduce": lambda tensor: manager.allreduce(tensor).wait()
    }
    for name, rule in RULES.items():
        calls[name] = lambda tensor, rule=rule: managed_all_reduce(tensor, rule, manager)  # type: ignore[misc]
    found = _timed(calls, options.d, options.repeats, rank)
    if manager.errored():
        raise RuntimeError("a reduction failed") from manager.errored().original_exception
    dist.barrier()
    manager.shutdown(wait=False)
    return found


def _process(rank: int, options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    count = options.replicas * options.shards
    meeting = f"tcp://127.0.0.1:{options.port}"
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=count)
    found = _fsdp2(rank, options) if options.engine == "fsdp2" else _torchft(rank, options)
    if rank == 0:
        own = next(iter(found.values()))
        print("| | ms | of its own | quartiles |\n|---|---:|---:|---|", flush=True)
        for name, seconds in found.items():
            ratios = [one / other for one, other in zip(seconds, own, strict=True)]
            low, middle, high = quantiles(ratios, n=4)
            print(f"| {name} | {1e3 * median(seconds):.1f} | {middle:.2f} | {low:.2f} to {high:.2f} |", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=["fsdp2", "torchft"])
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--d", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int)
    parser.add_argument("--lighthouse")
    options = parser.parse_args()
    if options.rank is not None:
        _process(options.rank, options)
        return
    lighthouse = None
    words = [f"--{name}={getattr(options, name)}" for name in ("replicas", "shards", "d", "repeats")]
    if options.engine == "torchft":
        from torchft.coordination import LighthouseServer

        lighthouse = LighthouseServer(bind="[::]:0", min_replicas=options.replicas, join_timeout_ms=60000)
        words.append(f"--lighthouse={lighthouse.address()}")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        words.append(f"--port={listener.getsockname()[1]}")
    count = options.replicas * options.shards
    print(f"{options.engine}, {options.replicas} replicas x {options.shards}, d = {options.d:,}", flush=True)
    command = [sys.executable, "-m", "benchmarks.engine_costs", options.engine, *words]
    quiet = {**os.environ, "RUST_LOG": "error"}
    started = [
        subprocess.Popen([*command, f"--rank={rank}"], env=quiet, stderr=subprocess.DEVNULL) for rank in range(count)
    ]
    try:
        codes = [process.wait(600) for process in started]
    finally:
        for process in started:
            process.kill()
        if lighthouse is not None:
            lighthouse.shutdown()
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
