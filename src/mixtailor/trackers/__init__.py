"""Where the numbers of a run go besides its own files: TensorBoard, MLflow, Weights & Biases, a journal, your own."""

from mixtailor.trackers.base import Tracker
from mixtailor.trackers.journal import Journal
from mixtailor.trackers.mlflow import MLflow
from mixtailor.trackers.named import TRACKERS, check_tracker, open_tracker
from mixtailor.trackers.tensorboard import TensorBoard
from mixtailor.trackers.wandb import WeightsAndBiases

__all__ = [
    "TRACKERS",
    "Journal",
    "MLflow",
    "TensorBoard",
    "Tracker",
    "WeightsAndBiases",
    "check_tracker",
    "open_tracker",
]
