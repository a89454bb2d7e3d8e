"""What surrounds the package: versions that agree, workflows that parse, a complete sdist, a set-up that works."""

import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
YAML = [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
posix = pytest.mark.skipif(os.name != "posix", reason="the Makefile and its scripts are for POSIX systems")


def problems(root, tag=None):
    spec = importlib.util.spec_from_file_location("release", ROOT / ".ci" / "release.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.problems(root, tag)


def test_version_changelog_and_citation_agree():
    assert problems(ROOT) == []


@pytest.fixture
def released(tmp_path):
    """A tree in which 1.2.3 was released."""
    (tmp_path / "src" / "mixtailor").mkdir(parents=True)
    (tmp_path / "src" / "mixtailor" / "_version.py").write_text('__version__ = "1.2.3"\n')
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 1.2.3 (2027-01-02)\n\n## 1.2.2 (2026-12-01)\n")
    (tmp_path / "CITATION.cff").write_text("version: 1.2.3\ndate-released: 2027-01-02\n")
    return tmp_path


@pytest.mark.parametrize(
    ("file", "old", "new", "tag", "told"),
    [
        ("CHANGELOG.md", "x", "x", "v1.2.3", None),
        ("CHANGELOG.md", "x", "x", "v1.2.4", "the tag must be v1.2.3"),
        ("CHANGELOG.md", "x", "x", "1.2.3", "the tag must be v1.2.3"),
        ("CHANGELOG.md", "## 1.2.3", "## 1.3.0", None, "CHANGELOG.md says version 1.3.0"),
        ("CHANGELOG.md", "2027-01-02", "unreleased", None, "CITATION.cff says date-released 2027-01-02"),
        ("CHANGELOG.md", "(2027-01-02)", "", None, "needed is"),
        ("CITATION.cff", "1.2.3", "1.2.2", None, "CITATION.cff says version 1.2.2"),
        ("CITATION.cff", "date-released: 2027-01-02\n", "", None, "date-released None"),
    ],
)
def test_what_does_not_agree_is_told(released, file, old, new, tag, told):
    path = released / file
    path.write_text(path.read_text().replace(old, new, 1))
    found = problems(released, tag)
    assert found == [] if told is None else any(told in problem for problem in found)


def test_an_unreleased_version_is_not_tagged(released):
    for file in ("CHANGELOG.md", "CITATION.cff"):
        text = (released / file).read_text().replace("(2027-01-02)", "(unreleased)")
        (released / file).write_text(text.replace("date-released: 2027-01-02\n", ""))
    assert problems(released) == []
    assert any("is unreleased" in problem for problem in problems(released, "v1.2.3"))


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_parses(path):
    yaml = pytest.importorskip("yaml")
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert isinstance(loaded, dict)
    for job in loaded.get("jobs", {}).values():
        assert "timeout-minutes" in job, "a job without a limit may hang for six hours"


def test_workflows_run_what_is_there():
    """Files that workflows name exist, and the suite of the base package is the list that `make test-all` takes."""
    text = "".join(path.read_text(encoding="utf-8") for path in YAML)
    named = set(re.findall(r"(?<![\w/])(?:\.ci/\S+?|tests/\w+(?:\.py)?)(?=[\s\"'`]|$)", text, re.MULTILINE))
    assert ".ci/run" in named and "tests/rules" in named
    assert [name for name in named if not (ROOT / name.rstrip(".")).exists()] == []
    assert "@.ci/base.txt" in text and "@.ci/base.txt" in (ROOT / "Makefile").read_text(encoding="utf-8")
    base = (ROOT / ".ci" / "base.txt").read_text(encoding="utf-8").split()
    assert base == sorted(base) and [name for name in base if not (ROOT / name).exists()] == []


def test_pre_commit_has_the_linter_of_the_suite():
    wanted = re.search(r"^ruff==(.+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    found = re.search(
        r"ruff-pre-commit\n    rev: v(\S+)", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    )
    assert found[1] == wanted[1]


def test_the_sdist_holds_all_that_the_repository_holds():
    """Tests read documents and programs beside the package, so a new file or folder at the top is shipped too."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    command = ["git", "-C", str(ROOT), "ls-files"]
    tracked = {line.split("/")[0] for line in subprocess.check_output(command, text=True, timeout=60).splitlines()}
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    shipped = {entry.strip("/") for entry in settings["targets"]["sdist"]["include"]}
    assert tracked - shipped - {"pyproject.toml"} == set()  # which hatchling adds itself


def sources():
    return sorted(path for path in (ROOT / "src").rglob("*.py") if "updates" not in path.parts)


def test_every_exception_has_its_reason():
    """`noqa` and `type: ignore` say why, on their line."""
    bare = re.compile(r"#\s*(type: ignore(\[[\w, -]+\])?|noqa(: ?[\w, ]+)?)\s*$")
    for path in sources():
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                if token.type == tokenize.COMMENT:
                    where = f"{path.relative_to(ROOT)}:{token.start[0]}"
                    assert not bare.search(token.string), f"{where}: {token.string} needs a reason"


def test_every_version_bound_has_its_reason():
    inside = False
    for line in (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            inside = line in ("[build-system]", "[project]", "[project.optional-dependencies]", "[dependency-groups]")
        if inside and re.search(r"[\w\]](>=|==|<|~=)[0-9]", line):
            assert re.search(r"#\s*\S+", line), f"{line.strip()} needs a reason"


# Set-up.


@pytest.fixture
def path_of(tmp_path):
    """A folder of commands: Pythons that pass the check of their version, or fail it."""

    def made(**commands):
        folder = tmp_path / "bin"
        folder.mkdir()
        for name, works in commands.items():
            command = folder / name.replace("_", ".")
            command.write_text(
                f'#!{shutil.which("sh")}\nif [ "$1" = -c ]; then exit {int(not works)}; fi\necho "$0 $@"\n'
            )
            command.chmod(command.stat().st_mode | stat.S_IXUSR)
        return folder

    return made


def set_up(folder, *arguments, **environment):
    command = [shutil.which("bash"), str(ROOT / ".ci" / "venv"), "place", *arguments]
    return subprocess.run(
        command, env={"PATH": str(folder), "HOME": str(folder), **environment},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@posix
@pytest.mark.parametrize(
    ("commands", "chosen"),
    [
        ({"python3_11": True, "python3_12": True}, "python3.11"),
        ({"python3_11": False, "python3_13": True, "python3": True}, "python3.13"),
        ({"python3": True}, "python3"),
        ({"python": True}, "python"),
    ],
)
def test_any_python_will_do(path_of, commands, chosen):
    """The first that works, not the first that is there: pyenv has commands for versions that are not selected."""
    folder = path_of(**commands)
    assert set_up(folder).stdout == f"{folder}/{chosen} -m venv place\n"


@posix
def test_no_python_is_an_error_that_says_what_to_do(path_of):
    done = set_up(path_of(python3_11=False, python3=False))
    assert done.returncode == 1 and done.stdout == ""
    assert "needs Python 3.11, 3.12 or 3.13" in done.stderr and "make PYTHON=" in done.stderr


@posix
def test_a_python_that_is_named_is_taken(path_of):
    folder = path_of(python3_11=True, mine=True)
    assert set_up(folder, PYTHON=f"{folder}/mine").stdout == f"{folder}/mine -m venv place\n"


@posix
def test_other_versions_are_found_among_those_of_pyenv(path_of, tmp_path):
    inside = tmp_path / "pyenv" / "versions" / "3.13.2" / "bin"
    folder = path_of(python3_11=True, python3_13=False)
    inside.mkdir(parents=True)
    (inside / "python3.13").write_text(f'#!{shutil.which("sh")}\nif [ "$1" != -c ]; then echo "$@"; fi\n')
    (inside / "python3.13").chmod(0o755)
    assert set_up(folder, "3.13", PYENV_ROOT=str(tmp_path / "pyenv")).stdout == "-m venv place\n"
    assert "needs Python 3.12 with venv" in set_up(folder, "3.12", PYENV_ROOT=str(tmp_path / "pyenv")).stderr


def test_nothing_here_needs_an_optional_package():
    """The base package is imported, and aggregates, in an interpreter that can import none of the extras."""
    program = """
import sys
for name in ("torch", "safetensors", "typer", "rich", "jinja2", "matplotlib", "sklearn", "pydantic", "joblib", "flwr"):
    sys.modules[name] = None
import numpy as np, mixtailor as mt
import mixtailor.attacks, mixtailor.theory, mixtailor.testing
print(mt.Comed()(np.array([[1.0], [2.0], [9.0]]))[0])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "2.0\n", done.stderr


def test_the_readme_of_the_package_has_links_that_work_anywhere():
    """PyPI shows the README without the repository around it: what was relative leads to a file there."""
    pytest.importorskip("hatchling")
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    before, after = (re.findall(r"\]\(([^)\s]+)\)", found) for found in (text, module.absolute(text)))
    assert [link.removeprefix(module.REPOSITORY).removeprefix(module.PICTURES) for link in after] == before
    assert all(link.startswith("https://") for link in after)
    assert f"]({module.PICTURES}docs/picture.svg)" in module.absolute(text)
