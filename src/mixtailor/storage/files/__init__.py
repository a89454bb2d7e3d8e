"""Files of arrays: `.npy`, `.npz`, `.safetensors` and torch checkpoints, parsed strictly and read by position."""
