"""A thousand clients in Flower's simulation engine, a hundred of them hostile: `python examples/flower/thousand.py`.

Prints, for each round, how long the server took to aggregate and how much memory its process has. Needs
`pip install "mixtailor[flower]"`.
"""

import argparse
import logging
import os
import resource
import time

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.simulation import run_simulation

import mixtailor as mt
from mixtailor.engines.flower import RobustStrategy

D = int(os.environ.get("THOUSAND_D", "10000"))  # of the model: clients are in processes of their own, and read it there
TRUTH = np.random.default_rng(0).normal(size=D).astype(np.float32)

client = ClientApp()


@client.train()
def train(message: Message, context: Context) -> Message:
    """One noisy step towards the truth; of every tenth client, a large one away from it."""
    model = message.content["arrays"].to_numpy_ndarrays()[0]
    place = int(context.node_config["partition-id"])
    noise = np.random.default_rng(place).normal(size=D).astype(np.float32)
    model = model + 0.5 * (TRUTH - model) + 0.1 * noise if place % 10 else model - 10 * TRUTH
    content = {"arrays": ArrayRecord([model]), "metrics": MetricRecord({"num-examples": 10})}
    return Message(RecordDict(content), reply_to=message)


class Timed(RobustStrategy):
    """Says how long each aggregation took."""

    def aggregate_train(self, server_round, replies):  # type: ignore[no-untyped-def]
        replies = list(replies)  # until here the server waits for clients
        start = time.perf_counter()
        found = super().aggregate_train(server_round, replies)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        error = np.linalg.norm(found[0].to_numpy_ndarrays()[0] - TRUTH) / np.linalg.norm(TRUTH)
        print(
            f"round {server_round}: {len(replies)} clients, aggregated in {time.perf_counter() - start:.2f} s, "
            f"peak memory {peak:.2f} GB, distance to the truth {error:.3f}",
            flush=True,
        )
        return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rule", default="recommended")
    options = parser.parse_args()
    logging.getLogger("flwr").setLevel(logging.WARNING)
    server = ServerApp()

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        rule = mt.make_rule(options.rule, f=options.clients // 10)
        strategy = Timed(rule, fraction_evaluate=0.0, min_train_nodes=options.clients)
        strategy.start(grid, ArrayRecord([np.zeros(D, np.float32)]), num_rounds=options.rounds)

    ray = {"init_args": {"num_cpus": os.cpu_count(), "include_dashboard": False}, "client_resources": {"num_cpus": 1}}
    run_simulation(server, client, num_supernodes=options.clients, backend_config=ray)


if __name__ == "__main__":
    main()
