"""Nine sites, two of them hostile, on FLARE's simulator: `python examples/flare/job.py`; `--mean` for FLARE's average.

Needs `pip install ".[flare,train]"` at the root of a checkout.
"""

import argparse
import sys
from pathlib import Path

import torch
from nvflare.app_opt.pt.recipes.fedavg import FedAvgRecipe
from nvflare.client.config import ExchangeFormat
from nvflare.recipe import SimEnv
from sklearn.datasets import load_digits

from mixtailor.engines.flare import RobustAggregator

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER))
from model import Digits  # noqa: E402  # beside this file

SITES = [f"site-{place}" for place in range(1, 10)]
HOSTILE = ["site-3", "site-7"]


def accuracy(path: Path) -> float:
    """The share of the last 297 digits, which no site has, that a saved model recognises."""
    data, model = load_digits(), Digits()
    model.load_state_dict(torch.load(path, weights_only=True)["model"])
    model.eval()
    with torch.no_grad():
        found = model(torch.tensor(data.data[1500:] / 16, dtype=torch.float32)).argmax(dim=1)
    return float((found == torch.tensor(data.target[1500:])).float().mean())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mean", action="store_true", help="FLARE's weighted average")
    parser.add_argument("--rule", default="recommended")
    parser.add_argument("--offload", action="store_true", help="have the server put what it receives on its disk")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workspace", default="/tmp/mixtailor-flare")
    options = parser.parse_args()
    recipe = FedAvgRecipe(
        name="digits",
        model=Digits(),
        min_clients=len(SITES),
        num_rounds=options.rounds,
        train_script=str(FOLDER / "train.py"),
        train_args=f"--hostile {','.join(HOSTILE)}",
        key_metric="loss",
        key_metric_mode="min",
        server_expected_format=ExchangeFormat.PYTORCH,
        enable_tensor_disk_offload=options.offload,
        aggregator=None if options.mean else RobustAggregator(options.rule, f=2),
    )
    run = recipe.execute(SimEnv(clients=SITES, num_threads=len(SITES), workspace_root=options.workspace))
    saved = sorted(Path(run.get_result()).rglob("FL_global_model.pt"))
    print(f"accuracy {accuracy(saved[-1]):.3f}")


if __name__ == "__main__":
    main()
