"""Low-rank updates (LoRA): factors stand for their product, which is never formed."""

from mixtailor.lowrank.aggregating import aggregate_low_rank
from mixtailor.lowrank.factors import Factors, truncated
from mixtailor.lowrank.peft import Adapter, read_adapter, write_adapter

__all__ = ["Adapter", "Factors", "aggregate_low_rank", "read_adapter", "truncated", "write_adapter"]
