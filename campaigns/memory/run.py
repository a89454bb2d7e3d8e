"""The campaign of Flower with `recommended` or another memory: the same clients are hostile in four rounds."""

from __future__ import annotations

from functools import partial

from campaigns.flower import run

campaign = partial(run.campaign, memory=True)
repeat = partial(run.repeat, memory=True)
