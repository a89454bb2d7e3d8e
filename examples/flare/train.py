"""What each site runs: a few steps on its own digits, and for hostile sites, something else."""

import argparse
import time
import zlib

import nvflare.client as flare
import torch
from model import Digits
from sklearn.datasets import load_digits


def digits(site: str) -> tuple[torch.Tensor, torch.Tensor]:
    """This site's part of scikit-learn's digits; the last 297 of 1,797 are kept for a test."""
    data = load_digits()
    choose = torch.Generator().manual_seed(zlib.crc32(site.encode()))
    rows = torch.randint(0, 1500, (300,), generator=choose)
    return torch.tensor(data.data[rows] / 16, dtype=torch.float32), torch.tensor(data.target[rows])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hostile", default="", help="names of hostile sites, with commas")
    parser.add_argument("--slow", default="", help="names of sites that take three seconds more, with commas")
    options = parser.parse_args()
    flare.init()
    site = flare.get_site_name()
    inputs, targets = digits(site)
    model = Digits()
    while flare.is_running():
        received = flare.receive()
        model.load_state_dict({name: torch.as_tensor(values) for name, values in received.params.items()})
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(5):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            loss.backward()
            optimizer.step()
        state = {name: values.cpu() for name, values in model.state_dict().items()}
        if site in options.slow.split(","):
            time.sleep(3.0)
        if site in options.hostile.split(","):
            state = {name: -10 * values for name, values in state.items()}
        meta = {"NUM_STEPS_CURRENT_ROUND": 5}
        flare.send(flare.FLModel(params=state, params_type="FULL", metrics={"loss": float(loss)}, meta=meta))


if __name__ == "__main__":
    main()
