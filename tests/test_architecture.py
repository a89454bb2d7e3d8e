"""The page on the architecture describes the tree as it is."""

import ast
import importlib
import inspect
import itertools
import pkgutil
import re
import tomllib
from abc import ABC
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

import mixtailor as mt
from benchmarks.calls import walked

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PACKAGES = {path.parent.name for path in (ROOT / "src" / "mixtailor").glob("*/__init__.py")}


def _layers() -> list[str]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["mixtailor"]]
    return layers


def test_every_package_has_its_row_and_no_other_has() -> None:
    table = PAGE.split("| Package | Job |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == PACKAGES


def test_the_picture_has_every_package_in_the_order_that_the_linter_checks() -> None:
    """Each arrow of the picture points from a higher layer to a lower one."""
    picture = re.search(r"```mermaid\nflowchart TD\n(.*?)```", PAGE, re.DOTALL)
    assert picture is not None
    order = {name: place for place, line in enumerate(_layers()) for name in re.findall(r"\w+", line)}
    seen = set()
    for line in picture[1].strip().splitlines():
        chain = [set(re.findall(r"\w+", part)) for part in line.split("-->")]
        for above, below in itertools.pairwise(chain):
            seen |= above | below
            assert max(order[name] for name in above) < min(order[name] for name in below), (above, below)
    assert seen == PACKAGES


def _file_of(name: str) -> str:
    package, *rest = name.split(".")
    found = importlib.import_module(f"mixtailor.{package}")
    for part in rest:
        if part not in getattr(found, "__dataclass_fields__", ()):
            found = getattr(found, part)
    return inspect.getfile(found)


def test_the_path_of_an_update_is_that_of_a_call() -> None:
    """Every step of the second picture exists, and an aggregation enters its file."""
    picture = re.search(r"```mermaid\nflowchart LR\n(.*?)```", PAGE, re.DOTALL)
    assert picture is not None
    files = [_file_of(name) for name in re.findall(r'\["([\w.]+)"\]', picture[1])]
    assert len(files) == 9
    rule = mt.NNM(1) >> mt.Comed()
    entered = walked(lambda: rule(np.random.default_rng(0).normal(size=(5, 9)))).files
    # Arrivals and points are records without functions of their own.
    assert {Path(file).name for file in files if file not in entered} == {"arrival.py", "points.py"}


def _sources(*packages: str) -> list[Path]:
    return [path for package in packages for path in sorted((ROOT / "src" / "mixtailor" / package).rglob("*.py"))]


def test_no_rule_knows_the_range_of_float64() -> None:
    """Rules receive lengths that can be squared and summed, so none compares with the ends of a type's range."""
    found = []
    for path in _sources("rules", "preaggregation"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            words = {getattr(node, "attr", None), getattr(node, "id", None)}
            value = node.value if isinstance(node, ast.Constant) and isinstance(node.value, float) else 1.0
            if words & {"finfo", "float_info", "frexp", "ldexp", "nextafter"} or not 1e-20 < abs(value or 1.0) < 1e20:
                found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_a_rule_of_one_formula_fits_on_a_page() -> None:
    """Of krum.py and medoid.py, at most thirty lines are code: the rest is their documentation."""
    for path in _sources("rules"):
        if path.name in ("krum.py", "medoid.py"):
            (rule,) = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
            methods = [node for node in rule.body if isinstance(node, ast.FunctionDef)]
            assert sum(method.end_lineno - method.lineno + 1 for method in methods) <= 30, path.name


@pytest.mark.parametrize("package", ["storage", "intake", "updates"])
def test_every_class_is_abstract_or_final(package: str) -> None:
    """Errors excepted: they are caught by their base."""
    if package != "updates":
        pytest.importorskip("torch")  # one module of the package is for its tensors
    top = importlib.import_module(f"mixtailor.{package}")
    names = [found.name for found in pkgutil.walk_packages(top.__path__, f"{top.__name__}.")]
    classes = {
        item
        for name in names
        for item in vars(importlib.import_module(name)).values()
        if inspect.isclass(item) and item.__module__ == name and not issubclass(item, Exception)
    }
    assert len(classes) > 2
    for item in classes:
        abstract = inspect.isabstract(item) or ABC in item.__bases__ or Protocol in item.__bases__
        assert getattr(item, "__final__", False) != abstract, item


def test_one_import_inside_a_function_among_the_three_packages() -> None:
    """That of the torch twin, which `import mixtailor` must not load."""
    found = set()
    for path in _sources("storage", "intake", "updates"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef):
                inner = [node for node in ast.walk(function) if isinstance(node, ast.ImportFrom)]
                found |= {(path.name, str(node.module)) for node in inner if str(node.module).startswith("mixtailor")}
    assert found == {("receive.py", "mixtailor.intake.device")}
