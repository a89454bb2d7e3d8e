"""Nine sites, two of them hostile and two slow, without rounds: `python examples/flare/buffered.py`.

Needs `pip install ".[flare,train]"` at the root of a checkout.
"""

import argparse
from pathlib import Path

from job import FOLDER, HOSTILE, SITES, accuracy
from model import Digits
from nvflare.app_opt.pt.job_config.model import PTModel
from nvflare.client.config import ExchangeFormat
from nvflare.job_config.api import FedJob
from nvflare.job_config.script_runner import ScriptRunner
from nvflare.recipe import SimEnv
from nvflare.recipe.spec import Recipe

from mixtailor.engines.flare import BufferedController

SLOW = ["site-5", "site-6"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rule", default="recommended")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--workspace", default="/tmp/mixtailor-flare")
    options = parser.parse_args()
    # FLARE ends a job in which fewer sites are alive than this: hostile ones could end it by leaving.
    job = FedJob(name="digits", min_clients=len(SITES) - len(HOSTILE))
    job.to_server(PTModel(Digits(), allow_numpy_conversion=False), id="persistor")
    job.to_server(BufferedController(options.rule, f=2, k=6, steps=options.steps, oldest=10))
    arguments = f"--hostile {','.join(HOSTILE)} --slow {','.join(SLOW)}"
    runner = ScriptRunner(
        script=str(FOLDER / "train.py"), script_args=arguments, server_expected_format=ExchangeFormat.PYTORCH
    )
    job.to_clients(runner)
    run = Recipe(job).execute(SimEnv(clients=SITES, num_threads=len(SITES), workspace_root=options.workspace))
    saved = sorted(Path(run.get_result()).rglob("FL_global_model.pt"))
    print(f"accuracy {accuracy(saved[-1]):.3f}")


if __name__ == "__main__":
    main()
