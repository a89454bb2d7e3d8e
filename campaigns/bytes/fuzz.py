"""``python -m campaigns.bytes.fuzz npz -max_total_time=60``: a target under atheris, which follows the code it reaches.

The arguments behind the target are libFuzzer's. A file that breaks a promise is left in the folder as ``crash-...``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

# Kernels are compiled, and numba knows nothing of the calls that are put in.
_KERNELS = Path(__file__).resolve().parents[2] / "src" / "mixtailor" / "kernels"
_COMPILED = [f"mixtailor.kernels.{path.stem}" for path in _KERNELS.glob("*.py")]

with atheris.instrument_imports(include=["mixtailor"], exclude=_COMPILED):
    from campaigns.bytes.check import Reader
    from campaigns.bytes.run import CORPUS
    from campaigns.bytes.targets import TARGETS


def main() -> None:
    """Fuzz one target until libFuzzer's own limits end it."""
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"The first argument needs to be a target: {', '.join(TARGETS)}.")
    name = sys.argv.pop(1)
    with Reader(name) as reader:

        def one(data: bytes) -> None:
            problem = reader.broken(data)
            if problem is not None:
                raise AssertionError(f"{name}: {problem}")

        # The first folder takes what is new, the second is read only.
        atheris.Setup([*sys.argv, str(reader.folder), str(CORPUS / name), "-max_len=65536"], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
