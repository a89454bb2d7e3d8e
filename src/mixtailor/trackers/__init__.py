"""Where the numbers of a run go besides its own files: TensorBoard, MLflow, Weights & Biases, or a tracker of yours."""

from mixtailor.trackers.base import Tracker
from mixtailor.trackers.mlflow import MLflow
from mixtailor.trackers.named import TRACKERS, check_tracker, open_tracker
from mixtailor.trackers.tensorboard import TensorBoard
from mixtailor.trackers.wandb import WeightsAndBiases

__all__ = ["TRACKERS", "MLflow", "TensorBoard", "Tracker", "WeightsAndBiases", "check_tracker", "open_tracker"]
