"""Where updates are stored: a storage gives blocks of coordinates and takes a result, nothing else."""

from mixtailor.kernels.space import Block, Numba
from mixtailor.storage.converted import Converted
from mixtailor.storage.layers import Layers, Matrix, flat_rows
from mixtailor.storage.rows import Broken, Rows, run_width, split
from mixtailor.storage.shard import Shard

__all__ = [
    "Block",
    "Broken",
    "Converted",
    "Layers",
    "Matrix",
    "Numba",
    "Rows",
    "Shard",
    "flat_rows",
    "run_width",
    "split",
]
