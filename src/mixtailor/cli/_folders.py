"""Folders of Hugging Face for ``mixtailor aggregate``: their configurations, and a folder for the result."""

import json
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mixtailor._checks import plural, refuse, shown
from mixtailor._files import new_file, read_bounded, rename
from mixtailor.intake.arrival import Arrival
from mixtailor.storage.files.folders import is_model_folder

__all__ = [
    "Configs",
    "check_folder_out",
    "common_adapter",
    "complete_folder",
    "inside",
    "most_bytes",
    "without",
    "written_folder",
]

# What says how the tensors of a folder are meant; which of these comes from the version that wrote it.
_CONFIGS = ("adapter_config.json", "config.json")
_VERSIONS = ("peft_version", "transformers_version", "_name_or_path")
_RANKS = ("r", "lora_alpha", "use_rslora", "rank_pattern", "alpha_pattern")  # what LoRA adapters may differ in
_MOST = 1 << 20


def inside(folder: Path) -> list[Path]:
    """The folders with weights in a folder, by name: an update each."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith(".") and is_model_folder(path))


class Configs:
    """What the folders say of how their tensors are meant: what most of them say, and who says something else.

    Attributes
    ----------
    most : dict
        By the name of the file, what most folders have in it.
    faults : dict
        The place of each folder that has something else, and what it is.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        found = [_configs(path) for path in paths]
        texts = [None if config is None else _text(config) for config in found]
        counts = Counter(text for text in texts if text is not None)
        if not counts:
            refuse(f"None of these {len(paths)} folders has an {_CONFIGS[0]} or {_CONFIGS[1]} that can be read.")
        (usual, count), *others = counts.most_common()
        if others and others[0][1] == count:
            refuse(
                f"Folders need the configuration that most of them have, and {count} of {len(paths)} have each of two: "
                f"{shown(paths[texts.index(usual)].name)} and {shown(paths[texts.index(others[0][0])].name)} differ."
            )
        same = [config for config, text in zip(found, texts, strict=True) if config is not None and text == usual]
        self.most: Mapping[str, object] = _most_written(same)
        self.faults = {
            place: "with a configuration that cannot be read" if config is None else _difference(config, self.most)
            for place, (config, text) in enumerate(zip(found, texts, strict=True))
            if text != usual
        }


def _configs(folder: Path) -> dict[str, object] | None:
    found = {}
    for name in _CONFIGS:
        if not (folder / name).exists():
            continue
        try:
            found[name] = json.loads(read_bounded(folder / name, _MOST, within=folder).decode("utf-8"))
        except (OSError, ValueError, RecursionError):
            return None
        if not isinstance(found[name], dict):
            return None
    return found or None


def _meant(config: object) -> object:
    """A configuration without what depends on who wrote it, and without null, which newer versions write for what they
    added; sets, which are written as lists, in order."""
    if not isinstance(config, dict):
        return config
    kept = {key: value for key, value in config.items() if key not in _VERSIONS and value is not None}
    return {
        key: sorted(value) if isinstance(value, list) and all(isinstance(item, str) for item in value) else value
        for key, value in kept.items()
    }


def _text(configs: Mapping[str, object]) -> str:
    return json.dumps({name: _meant(config) for name, config in configs.items()}, sort_keys=True)


def _difference(own: Mapping[str, object], most: Mapping[str, object]) -> str:
    for name in _CONFIGS:
        mine, usual = _meant(own.get(name)), _meant(most.get(name))
        if mine == usual:
            continue
        if not isinstance(mine, dict) or not isinstance(usual, dict):
            return f"{'without' if usual else 'with'} {name}, unlike most"
        key = next(key for key in [*usual, *mine] if key not in mine or key not in usual or mine[key] != usual[key])
        own_value, usual_value = (
            shown(json.dumps(config[key]))[:60] if key in config else "nothing" for config in (mine, usual)
        )
        return f"with {shown(key)[:40]} = {own_value} in its {name}, where most have {usual_value}"
    return "with another configuration than most"


def _most_written(configs: Sequence[Mapping[str, object]], apart: Sequence[str] = ()) -> Mapping[str, object]:
    """Of configurations that mean the same, the one that most wrote word by word; `apart` is not compared.

    Orders, versions and null are no difference in meaning, but whoever loads the result gets them, and no single worker
    chooses what it loads.
    """
    texts = [json.dumps({key: config[key] for key in config if key not in apart}, sort_keys=True) for config in configs]
    return configs[texts.index(Counter(texts).most_common(1)[0][0])]


def common_adapter(configs: Sequence[Mapping[str, object]], faults: dict[int, str]) -> Mapping[str, object]:
    """The configuration that most LoRA adapters have, whatever their ranks; those with another are faulty from now on.

    Whoever loads the result believes its configuration, so no single worker may choose it.
    """
    meant = {
        place: {key: value for key, value in config.items() if key not in _RANKS}
        for place, config in enumerate(configs)
        if place not in faults
    }
    texts = {place: _text({_CONFIGS[0]: config}) for place, config in meant.items()}
    (usual, count), *others = Counter(texts.values()).most_common()
    if others and others[0][1] == count:
        refuse(f"Adapters need the configuration that most have, and {count} of {len(configs)} have each of two.")
    first = next(place for place, text in texts.items() if text == usual)
    for place, text in texts.items():
        if text != usual:
            faults[place] = _difference({_CONFIGS[0]: meant[place]}, {_CONFIGS[0]: meant[first]})
    return _most_written([configs[place] for place, text in texts.items() if text == usual], _RANKS)


def most_bytes(files: Sequence[Path]) -> int:
    """How many bytes a file that is loaded may have: far more than most of these, so that no honest one has more."""
    sizes = [file.stat().st_size if file.is_file() else 0 for file in files]
    return (1 << 20) + 64 * sorted(sizes)[len(sizes) // 2]


def without(arrival: Arrival, faults: Mapping[int, str]) -> Arrival:
    """What arrived, with further updates among the faulty ones."""
    more = {place: reason for place, reason in faults.items() if place not in arrival.faults}
    if not more:
        return arrival
    rows = [row for row, place in enumerate(arrival.received) if place not in more]
    if not rows:
        refuse(f"None of {plural(arrival.n, 'update')} is sound.")
    kept = [*rows, len(arrival.received)] if arrival.base else rows
    received = tuple(arrival.received[row] for row in rows)
    return replace(arrival, storage=arrival.storage.only(kept), received=received, faults={**arrival.faults, **more})


def check_folder_out(out: Path) -> None:
    """Before anything is computed, refuse an output that could not be written."""
    if out.suffix in (".safetensors", ".npy", ".npz", ".pt", ".pth", ".bin"):
        refuse(f"The result of folders is a folder, with its configuration, and {out.name!r} is the name of a file.")
    if out.exists() or out.is_symlink():
        refuse(f"The result needs a folder that does not exist yet, and {str(out)!r} does. Give another name.")
    if not out.parent.is_dir():
        refuse(f"The result needs a folder that exists to be put in, and {str(out.parent)!r} does not. Make it first.")


@contextmanager
def complete_folder(out: Path) -> Iterator[Path]:
    """A folder to write to, which appears under its name when it is complete."""
    beside = out.with_name(f".{out.name}.{secrets.token_hex(6)}.part")
    beside.mkdir()
    try:
        yield beside
        rename(beside, out)
    except BaseException:  # Ctrl-C too
        shutil.rmtree(beside, ignore_errors=True)
        raise


def written_folder(out: Path, configs: Configs, write: "Callable[[Path], None]") -> None:
    """Write a folder with its configurations; `write` writes the weights to a file."""
    adapter = _CONFIGS[0] in configs.most  # no single folder decides it
    with complete_folder(out) as folder:
        for name, config in configs.most.items():
            with new_file(folder / name) as file:
                file.write((json.dumps(config, indent=2, sort_keys=True) + "\n").encode())
        write(folder / ("adapter_model.safetensors" if adapter else "model.safetensors"))
