"""Training under attack: data, partitions, models, workers, the rounds."""

from mixtailor.simulation.asynchronous import Asynchronous, Clock, Progressed
from mixtailor.simulation.batches import Batches
from mixtailor.simulation.catalogue import DATASETS, cifar10, digits, load, mnist, synthetic
from mixtailor.simulation.cifar import read_cifar
from mixtailor.simulation.data import Dataset
from mixtailor.simulation.decentralised import Bottleneck, Decentralised, Networked
from mixtailor.simulation.evaluation import Evaluation
from mixtailor.simulation.files import DataError
from mixtailor.simulation.flat import Layout
from mixtailor.simulation.gradients import WorkerGradients
from mixtailor.simulation.idx import read_idx
from mixtailor.simulation.local import LocalTraining
from mixtailor.simulation.models import MODELS, build, cnn, large_cnn, logistic, mlp, small_cnn
from mixtailor.simulation.outcome import Outcome
from mixtailor.simulation.own import as_dataset, read_data
from mixtailor.simulation.partitions import PARTITIONS, by_label, dirichlet, iid, shards, similarity
from mixtailor.simulation.progress import watched
from mixtailor.simulation.published import data_folder
from mixtailor.simulation.randomness import seeded
from mixtailor.simulation.rates import RATES, Constant, Cosine, Inverse, Rate, Steps
from mixtailor.simulation.recorded_states import Recorder, read_states
from mixtailor.simulation.rollback import Rollback
from mixtailor.simulation.settings import Settings
from mixtailor.simulation.streams import stream, stream_seed
from mixtailor.simulation.topologies import TOPOLOGIES, topology
from mixtailor.simulation.training import Simulation

__all__ = [
    "DATASETS",
    "MODELS",
    "PARTITIONS",
    "RATES",
    "TOPOLOGIES",
    "Asynchronous",
    "Batches",
    "Bottleneck",
    "Clock",
    "Constant",
    "Cosine",
    "DataError",
    "Dataset",
    "Decentralised",
    "Evaluation",
    "Inverse",
    "Layout",
    "LocalTraining",
    "Networked",
    "Outcome",
    "Progressed",
    "Rate",
    "Recorder",
    "Rollback",
    "Settings",
    "Simulation",
    "Steps",
    "WorkerGradients",
    "as_dataset",
    "build",
    "by_label",
    "cifar10",
    "cnn",
    "data_folder",
    "digits",
    "dirichlet",
    "iid",
    "large_cnn",
    "load",
    "logistic",
    "mlp",
    "mnist",
    "read_cifar",
    "read_data",
    "read_idx",
    "read_states",
    "seeded",
    "shards",
    "similarity",
    "small_cnn",
    "stream",
    "stream_seed",
    "synthetic",
    "topology",
    "watched",
]
