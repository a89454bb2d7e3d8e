"""What is installed is what was asked for, and every file of it has a hash."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "requirements.txt").read_text(encoding="utf-8")
PINS = {name: Version(version) for name, version in re.findall(r"^([a-z0-9-]+)==(\S+) \\$", TEXT, re.MULTILINE)}


PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def groups():
    """The module that lists dependency groups."""
    spec = importlib.util.spec_from_file_location("groups", ROOT / ".ci" / "groups.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wanted(extra: str | None = None) -> list[Requirement]:
    """What pyproject.toml asks for, in an extra or always; the project's own extras taken apart."""
    project = PYPROJECT["project"]
    lines = project["dependencies"] if extra is None else project["optional-dependencies"][extra]
    found = []
    for requirement in map(Requirement, lines):
        if requirement.name == "mixtailor":
            found += [each for inner in sorted(requirement.extras) for each in wanted(inner)]
        else:
            found.append(requirement)
    return found


DEVELOPMENT = [*wanted(), *wanted("all"), *wanted("flower"), *map(Requirement, groups().group("dev"))]


def test_development_is_no_extra() -> None:
    """Users see only extras that are for them; what developers need is in dependency groups."""
    assert set(PYPROJECT["project"]["optional-dependencies"]) & {"dev", "fuzz", "test", "lint"} == set()
    program = [sys.executable, str(ROOT / ".ci" / "groups.py")]
    printed = subprocess.run([*program, "dev"], capture_output=True, text=True, check=True, timeout=60).stdout.split(
        "\n"
    )
    assert {"pytest", "mypy", "atheris"} <= {Requirement(line).name for line in printed if line}
    unknown = subprocess.run([*program, "none"], capture_output=True, text=True, check=False, timeout=60)
    assert unknown.returncode == 1 and "There is no dependency group 'none'" in unknown.stderr


def test_the_lowest_versions_are_the_lower_bounds() -> None:
    for requirement, pin in zip(wanted(), map(Requirement, groups().lowest()), strict=True):
        version = str(pin.specifier).removeprefix("==")
        assert pin.name == requirement.name and str(requirement.specifier) == f">={version}"


def test_every_requirement_is_pinned_and_hashed() -> None:
    lines = [line for line in TEXT.splitlines() if line and not line.startswith("#")]
    assert PINS and all(
        re.fullmatch(r"[a-z0-9-]+==\S+ \\|    --hash=sha256:[0-9a-f]{64}(?: \\)?", line) for line in lines
    )
    blocks = re.split(r"\n(?=[a-z0-9])", "\n".join(lines))
    assert len(blocks) == len(PINS) and all("--hash=sha256:" in block for block in blocks)


@pytest.mark.parametrize("requirement", DEVELOPMENT, ids=str)
def test_what_the_project_asks_for_is_in_it(requirement: Requirement) -> None:
    """A dependency that was added or raised without `make requirements` is noticed."""
    if requirement.marker is not None and not requirement.marker.evaluate():
        return
    name = canonicalize_name(requirement.name)
    assert name in PINS, f"{name} has no hash: run make requirements"
    assert requirement.specifier.contains(PINS[name], prereleases=True), f"run make requirements: {requirement}"


def test_versions_are_those_of_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    constraints = [Requirement(line) for line in lines if line and not line.startswith("#")]
    for constraint in constraints:
        name = canonicalize_name(constraint.name)
        if name in PINS:
            assert constraint.specifier.contains(PINS[name], prereleases=True), f"run make requirements: {constraint}"


def test_torch_has_the_hashes_of_both_its_builds() -> None:
    """One that pip finds by its own configuration, and those of the registry."""
    block = re.search(r"^torch==\S+ \\\n((?:    --hash=\S+(?: \\)?\n)+)", TEXT, re.MULTILINE)
    assert block is not None and block[1].count("--hash=") >= 2


def test_a_fresh_environment_is_filled_from_it() -> None:
    """The one recipe that `make` has, for people and for continuous integration alike.

    Without ``--no-deps``, pip 23 looks for the newest release where a package asks for another with an extra
    (``coverage[toml]``), finds one that is not pinned, and stops.
    """
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--no-deps --require-hashes --requirement requirements.txt" in recipe
    assert "--no-deps --no-build-isolation --editable ." in recipe
    assert "make " in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
