"""Where updates are stored: a storage gives blocks of coordinates and takes a result, nothing else."""

from mixtailor.storage.layers import Layers, Matrix, flat_rows
from mixtailor.storage.rows import Broken, Rows, run_width, split
from mixtailor.storage.shard import Shard
from mixtailor.storage.strided import Strided

__all__ = ["Broken", "Layers", "Matrix", "Rows", "Shard", "Strided", "flat_rows", "run_width", "split"]
