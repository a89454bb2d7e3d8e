"""One replica: `replica.py NAME LIGHTHOUSE`. Prints a line of JSON for each step that was committed.

Its gradients are silently wrong with `--corrupt`; with `--mean`, torchft's own average is used.
"""

import argparse
import hashlib
import json
import zlib
from datetime import timedelta

import torch
from torch.distributed import TCPStore
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

import mixtailor as mt
from mixtailor.engines.torchft import RobustDistributedDataParallel

PATIENCE = timedelta(
    seconds=60
)  # a replica that died is noticed at once, by its connections: this is for busy machines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("lighthouse")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--least", type=int, default=3, help="replicas that a step needs")
    parser.add_argument("--together", type=int, default=1, help="replicas that the last step needs: go on until then")
    parser.add_argument("--corrupt", action="store_true")
    parser.add_argument("--mean", action="store_true")
    parser.add_argument("--wait", action="store_true", help="begin when a line is read from the standard input")
    options = parser.parse_args()
    if options.wait:
        input()

    torch.set_num_threads(1)
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    truth = torch.randn(8, 1)
    inner = torch.optim.SGD(module.parameters(), lr=0.1)

    def load(state: dict[str, dict[str, object]]) -> None:
        module.load_state_dict(state["model"])
        inner.load_state_dict(state["optimizer"])

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(timeout=PATIENCE),
        load_state_dict=load,
        state_dict=lambda: {"model": module.state_dict(), "optimizer": inner.state_dict()},
        min_replica_size=options.least,
        use_async_quorum=False,  # replicas that are still being healed would send zeros
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=options.lighthouse,
        replica_id=options.name,
        timeout=PATIENCE,
        quorum_timeout=PATIENCE,
    )
    model = (
        DistributedDataParallel(manager, module)
        if options.mean
        else RobustDistributedDataParallel(manager, module, mt.Comed())
    )
    optimizer = Optimizer(manager, inner)
    if options.corrupt:
        for item in module.parameters():
            item.register_hook(lambda gradient: -1e4 * gradient)
    random = torch.Generator().manual_seed(zlib.crc32(options.name.encode()))
    n = 0  # replicas of the last committed step; all of them know it, so that all end after the same step
    try:
        while manager.current_step() < options.steps or n < options.together:
            step = manager.current_step()
            inputs = torch.randn(64, 8, generator=random)
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(inputs), torch.tanh(inputs @ truth))
            loss.backward()
            optimizer.step()
            if manager.current_step() > step:
                n = manager.num_participants()
                bits = b"".join(item.detach().numpy().tobytes() for item in module.parameters())
                told = {"step": manager.current_step() - 1, "n": n, "loss": float(loss)}
                print(json.dumps({**told, "model": hashlib.sha256(bits).hexdigest()[:16]}), flush=True)
    finally:
        manager.shutdown(wait=False)


if __name__ == "__main__":
    main()
