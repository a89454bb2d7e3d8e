"""One run as data: everything that decides its outcome, and a hash of it."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from mixtailor._checks import nearest
from mixtailor._references import digest_of, files_of, is_reference
from mixtailor.experiments.errors import ConfigError, ImpossibleError, sentences

__all__ = ["FORMAT", "NETWORKS", "PRESETS", "Named", "RunConfig", "label_of"]

FORMAT = 1  # raised when the same configuration comes to mean another run

# The keys that every hash contains, those of the first results.
FIRST = frozenset(
    {
        "rule", "attack", "data", "model", "model_options", "partition", "spread", "n", "f", "byzantine", "identities",
        "participation", "rounds", "evaluate_every", "batch", "learning_rate", "rate", "momentum", "weight_decay",
        "worker_momentum", "sends", "local_steps", "local_learning_rate", "local_momentum", "seed",
    }
)  # fmt: skip

DATA = ("digits", "mnist", "cifar10", "synthetic")
MODELS = ("cnn", "large_cnn", "small_cnn", "mlp", "logistic")

Named = dict[str, Any]

PRESETS: Mapping[str, Mapping[str, Any]] = {
    # The hyper-parameter table of the MixTailor paper.
    "mnist": {
        "data": "mnist",
        "model": "cnn",
        "learning_rate": 0.001,
        "batch": 50,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "rounds": 50_000,
        "evaluate_every": 1_000,
    },
    "cifar10": {
        "data": "cifar10",
        "model": "cnn",
        "learning_rate": 0.001,
        "batch": 80,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "rounds": 40_000,
        "evaluate_every": 800,
    },
    # Ours, for what comes along with scikit-learn and trains in a second.
    "digits": {
        "data": "digits",
        "model": "mlp",
        "learning_rate": 0.05,
        "batch": 16,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "rounds": 200,
        "evaluate_every": 20,
    },
    # Ours, for sweeps: a few milliseconds a round, and nearly as far after 400 rounds as this network gets.
    "mnist-small": {
        "data": "mnist",
        "pooled": 2,
        "model": "mlp",
        "model_options": {"hidden": 32},
        "learning_rate": 0.05,
        "batch": 32,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "rounds": 300,
        "evaluate_every": 30,
    },
    "cifar10-small": {
        "data": "cifar10",
        "pooled": 4,
        "model": "mlp",
        "model_options": {"hidden": 32},
        "learning_rate": 0.05,
        "batch": 32,
        "momentum": 0.9,
        "weight_decay": 1e-4,
        "rounds": 400,
        "evaluate_every": 40,
    },
}

# The two readings of the paper's networks. Its text gives two convolutional and two full layers and no widths; the code
# that its authors published builds a perceptron for MNIST and a larger convolutional network for CIFAR-10.
NETWORKS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "text": {"mnist": {"model": "cnn"}, "cifar10": {"model": "cnn"}},
    "code": {"mnist": {"model": "mlp", "model_options": {"hidden": 100}}, "cifar10": {"model": "large_cnn"}},
}


class RunConfig(BaseModel):
    """The configuration of one run; `Settings` explains most of the keys.

    Parameters
    ----------
    rule, attack, partition, rate : str or table
        A name, or ``{name = "krum", p = 3}`` with its parameters. `partition` and `rate` are of the simulation.
    data, model : str
        A name, a file of data, or ``mine.py:Net``: an object of yours, by its file or its module.
    f : int
        The f that the server declares.
    byzantine : int, optional
        How many really are; f by default.
    rollback : float, optional
        By how much all losses must have risen for the server to step back; it never does by default.
    topology : str or table, optional
        There is no server, and workers mix with their neighbours: a name of `TOPOLOGIES`, or a file of edges.
    pooled : int
        The side of the squares of pixels that are averaged to one.

    Examples
    --------
    >>> config = RunConfig.made({"preset": "digits", "rule": {"name": "krum", "p": 3}, "attack": "none"})
    >>> config.rounds, config.byzantine, config.rule
    (200, 2, {'name': 'krum', 'p': 3})
    >>> RunConfig.made({"rule": "krum", "learning_rat": 0.1})
    Traceback (most recent call last):
    mixtailor.experiments.ConfigError: run: there is no key 'learning_rat'. Did you mean 'learning_rate'?
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    rule: Named
    attack: Named = Field(default_factory=lambda: {"name": "none"})
    data: str = "digits"
    pooled: int = Field(default=1, ge=1)
    model: str = "mlp"
    model_options: dict[str, float] = Field(default_factory=dict)
    partition: Named = Field(default_factory=lambda: {"name": "iid"})
    spread: Literal["all", "honest"] = "all"
    n: int = Field(default=12, ge=1)
    f: int = Field(default=2, ge=0)
    byzantine: int = Field(default=2, ge=0)
    identities: Literal["fixed", "changing"] | Annotated[int, Field(ge=1, strict=True)] = "fixed"
    participation: float = Field(default=1.0, gt=0, le=1)
    rounds: int = Field(default=200, ge=1)
    evaluate_every: int = Field(default=20, ge=1)
    batch: int = Field(default=16, ge=1)
    learning_rate: float = Field(default=0.05, gt=0)
    rate: Named = Field(default_factory=lambda: {"name": "constant"})
    momentum: float = Field(default=0.9, ge=0, lt=1)
    weight_decay: float = Field(default=1e-4, ge=0)
    worker_momentum: float = Field(default=0.0, ge=0, lt=1)
    sends: Literal["gradients", "deltas", "models"] = "gradients"
    replaces_model: bool = True
    nesterov: bool = False
    local_steps: int = Field(default=1, ge=1)
    local_learning_rate: float = Field(default=0.1, gt=0)
    local_momentum: float = Field(default=0.0, ge=0, lt=1)
    rollback: float | None = Field(default=None, gt=1)
    topology: Named | None = None
    seed: int = Field(default=0, ge=0)
    # Digests of what no name stands for: the data and the network of a comparison of objects.
    objects: dict[str, str] = Field(default={})

    @model_validator(mode="after")
    def _known(self) -> Self:
        """Names of data and networks exist, unless objects take their place."""
        if not ("data" in self.objects or self.data in DATA or _is_file(self.data)):
            yours = "One of yours is a file: mine.npz, mine.csv, a folder of idx files, mine.py:data"
            raise ValueError(f"there is no data set {self.data!r}. {nearest(self.data, DATA)} {yours}")
        if not ("model" in self.objects or self.model in MODELS or is_reference(self.model)):
            yours = "One of yours is written mine.py:Net"
            raise ValueError(f"there is no model {self.model!r}. {nearest(self.model, MODELS)} {yours}")
        return self

    @field_validator("rule", "attack", "partition", "rate", "topology", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        if value is None:
            return None  # of a topology: there is a server
        if isinstance(value, str):
            return {"name": value}
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            # A label names a line in a picture and changes nothing of the run.
            return {key: item for key, item in value.items() if key != "label"}
        raise ValueError(f"needs a name, or a table with one as in {{name = 'krum'}}, and got {value!r}")

    @classmethod
    def made(cls, table: Mapping[str, Any], where: str = "run") -> Self:
        """A checked configuration from a table, in which ``preset`` gives what is not said.

        With a preset of the paper, ``network`` selects a reading of its network: ``"text"`` or ``"code"``.
        """
        given = dict(table)
        preset, network = given.pop("preset", None), given.pop("network", None)
        if preset is not None:
            if not isinstance(preset, str) or preset not in PRESETS:
                raise ConfigError(f"{where}: there is no preset {preset!r}. {nearest(str(preset), list(PRESETS))}")
            given = {**PRESETS[preset], **_network(preset, network, where), **given}
        elif network is not None:
            raise ConfigError(f"{where}: network = {network!r} needs a preset of the paper: mnist or cifar10.")
        if "byzantine" not in given and isinstance(given.get("f"), int):
            given["byzantine"] = given["f"]
        try:
            config = cls(**given)
        except ValidationError as error:
            raise ConfigError(sentences(error, cls, where)) from None
        from mixtailor.experiments.building import check  # torch loads here, and not to look at a file

        try:
            check(config)
        except (ValueError, TypeError) as error:
            kind = ImpossibleError if isinstance(error, ImpossibleError) else ConfigError
            raise kind(f"{where}: {error}") from None
        return config

    def scaled(self, scale: float) -> Self:
        """The same with a share of the rounds, and as many evaluations."""
        if not scale > 0:
            raise ConfigError(f"A scale needs to be above 0 and is {scale}.")
        rounds = max(1, round(self.rounds * scale))
        return self.model_copy(update={"rounds": rounds, "evaluate_every": max(1, round(self.evaluate_every * scale))})

    @property
    def hash(self) -> str:
        """What identifies the run: equal configurations are one run."""
        # A key that came after the first results counts only where it is not at its default: older results stay valid.
        fields = type(self).model_fields
        table = {
            key: value
            for key, value in self.model_dump(mode="json").items()
            if key in FIRST or value != fields[key].default
        }
        # Another content of a file that it names is another run.
        files = [*files_of(json.dumps(table)), *([] if "data" in self.objects else _data_files(self.data))]
        contents = {str(path): digest_of(path) for path in files}
        text = json.dumps([FORMAT, table, *([contents] if contents else [])], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_file(data: str) -> bool:
    """Whether it can be a file of data or a reference; whether it exists is checked when it is read."""
    return is_reference(data) or "/" in data or Path(data).suffix in (".npz", ".csv") or Path(data).is_dir()


def _data_files(data: str) -> list[Path]:
    if data in DATA:
        return []
    from mixtailor.simulation.own import data_files  # torch loads here

    return data_files(data)


def _network(preset: str, network: object, where: str) -> Mapping[str, Any]:
    if network is None:
        return {}
    if not isinstance(network, str) or network not in NETWORKS:
        raise ConfigError(f"{where}: there is no network {network!r}. {nearest(str(network), list(NETWORKS))}")
    if preset not in NETWORKS[network]:
        raise ConfigError(f"{where}: the paper has no network for the preset {preset!r}, only for mnist and cifar10.")
    return NETWORKS[network][preset]


def label_of(value: object) -> str:
    """What a rule or an attack is called in a picture.

    Examples
    --------
    >>> label_of("krum"), label_of({"name": "krum", "p": 3}), label_of({"name": "paper_pool", "label": "MixTailor"})
    ('krum', 'krum p=3', 'MixTailor')
    """
    if not isinstance(value, Mapping):
        return re.sub(r"[^\s(,=]*[/\\]([\w.-]+\.py:)", r"\1", str(value))  # a file without its folders
    if "label" in value:
        return str(value["label"])
    rest = [f"{key}={_short(item)}" for key, item in value.items() if key not in ("name", "digest")]
    return " ".join([label_of(str(value.get("name", "?"))), *rest])


def _short(value: object) -> str:
    if isinstance(value, Mapping):
        return f"({label_of(value)})"
    if isinstance(value, (list, tuple)):
        return "/".join(_short(item) for item in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
