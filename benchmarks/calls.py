"""How long the walk of a call is: Python calls, functions, files, jumps between files, depth.

    python -m benchmarks.calls

Counted by `sys.setprofile` when kernels are compiled and caches are filled. Only functions
of this package count; functions of numpy, torch and the standard library do not.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import mixtailor as mt

PACKAGE = str(Path(mt.__file__).parent)


@dataclass
class Walk:
    """What was counted.

    Attributes
    ----------
    calls : int
        Python functions of the package that were entered.
    functions, files : set
        Different ones.
    jumps : int
        How often a call went from one file to another.
    depth : int
        The most functions of the package that were open at once.
    """

    calls: int = 0
    functions: set[tuple[str, str]] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    jumps: int = 0
    depth: int = 0

    def __str__(self) -> str:
        return (
            f"{self.calls} calls, {len(self.functions)} functions, {len(self.files)} files, {self.jumps} jumps, "
            f"depth {self.depth}"
        )


def walked(call: Callable[[], Any]) -> Walk:
    """Count what a call enters."""
    walk, stack = Walk(), [""]

    def profile(frame: Any, event: str, _argument: Any) -> None:
        path = frame.f_code.co_filename
        if not path.startswith(PACKAGE) or event not in ("call", "return"):
            return
        if event == "return":
            stack.pop()
            return
        walk.calls += 1
        walk.functions.add((path, frame.f_code.co_qualname))
        walk.files.add(path)
        walk.jumps += bool(stack[-1]) and stack[-1] != path
        stack.append(path)
        walk.depth = max(walk.depth, len(stack) - 1)

    sys.setprofile(profile)
    try:
        call()
    finally:
        sys.setprofile(None)
    return walk


def state_dicts(n: int = 12) -> list[dict[str, Any]]:
    """n state dicts of one linear layer, 784 to 10."""
    import torch

    generator = torch.Generator().manual_seed(0)
    shapes = {"weight": (10, 784), "bias": (10,)}
    return [{name: torch.randn(shape, generator=generator) for name, shape in shapes.items()} for _ in range(n)]


def measured() -> dict[str, Walk]:
    """The two calls that the architecture promises to keep short, and a draw from a pool."""
    matrix = np.random.default_rng(0).normal(size=(12, 21_840)).astype(np.float32)
    dicts = state_dicts()
    rules: dict[str, tuple[Any, Any]] = {
        "NNM(f=2) >> Krum(f=2) on twelve state dicts": (mt.NNM(f=2) >> mt.Krum(f=2), dicts),
        "Comed() on a matrix": (mt.Comed(), matrix),
        "MixTailor(default_pool(f=2)) on a matrix": (mt.MixTailor(mt.default_pool(f=2)), matrix),
    }
    found = {}
    for name, (rule, updates) in rules.items():
        for _ in range(3):
            rule(updates)
        found[name] = walked(lambda rule=rule, updates=updates: rule(updates))
    return found


if __name__ == "__main__":
    for name, walk in measured().items():
        print(f"{name}: {walk}")
