"""Objects by where they are written: ``mine.py:Nearest`` in a file, ``package.module:Nearest`` in an importable module.

Naming an object runs the file or module that it is in, as importing it would.
"""

import hashlib
import importlib
import importlib.util
import re
import sys
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from mixtailor._checks import nearest, refuse

__all__ = ["PATTERN", "digest_of", "files_of", "is_reference", "loaded"]

# A drive letter, for paths of Windows; a path or a dotted name; a colon and a name.
PATTERN = r"(?:[A-Za-z]:(?=[\\/]))?[\w.~/\\-]+:[A-Za-z_]\w*"
_WHOLE = re.compile(PATTERN)


def is_reference(name: object) -> bool:
    """Whether a text names an object by its file or module.

    Examples
    --------
    >>> [is_reference(text) for text in ("mine.py:Nearest", "package.module:Nearest", "krum", "nnm >> krum")]
    [True, True, False, False]
    """
    return isinstance(name, str) and _WHOLE.fullmatch(name) is not None


def loaded(name: str) -> Any:
    """The object that a reference names.

    A file is looked for from the current folder and run once per process; modules beside it can be imported by it.
    """
    where, _, attribute = name.rpartition(":")
    module = _from_file(where) if where.endswith(".py") else _imported(where, name)
    try:
        return getattr(module, attribute)
    except AttributeError:
        known = [word for word in vars(module) if not word.startswith("_")]
        return refuse(f"{where} has no {attribute!r}. {nearest(attribute, known) if known else 'It is empty.'}")


def files_of(text: str) -> list[Path]:
    """The files that the references in a text are in; of a module, the file that it is imported from."""
    found = []
    for name in dict.fromkeys(_WHOLE.findall(text)):
        where = name.rpartition(":")[0]
        path = Path(where).expanduser() if where.endswith(".py") else _origin(where)
        if path is not None and path.is_file():
            found.append(path)
    return found


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in short. It is read again only where its size or time changed."""
    known = path.stat()
    return _digest(str(path), known.st_size, known.st_mtime_ns)


@lru_cache(maxsize=256)
def _digest(path: str, _size: int, _changed: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _origin(module: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def _imported(where: str, name: str) -> ModuleType:
    try:
        return importlib.import_module(where)
    except ImportError as error:
        if error.name is not None and not f"{where}.".startswith(f"{error.name}."):
            raise  # the module is there, and what it imports is not
        return refuse(
            f"{name!r} names the module {where!r}, which cannot be imported. Write a file with its ending, as in "
            "'mine.py:Nearest', or an installed module, as in 'package.module:Nearest'."
        )


def _from_file(where: str) -> ModuleType:
    path = Path(where).expanduser().resolve()
    if not path.is_file():
        refuse(f"There is no file {where!r} in {Path.cwd()}. Give its path from there, or a whole one.")
    # Edited, it is another module: a notebook that is still running gets what the file says now.
    name = f"_mixtailor_{path.stem}_{hashlib.sha256(f'{path} {digest_of(path)}'.encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # before it runs: dataclasses look their module up
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    finally:
        sys.path.remove(str(path.parent))
    return module
