"""The model that sites train."""

import torch


class Digits(torch.nn.Sequential):
    """64 pixels to 10 digits, with a counter among its buffers."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__(torch.nn.BatchNorm1d(64), torch.nn.Linear(64, 10))
