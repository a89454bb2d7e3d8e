"""Nothing from outside is executed: no unpickling, no `torch.load` of objects, no `eval`, no `yaml.load`.

ruff (S301, S302, S307, S506) forbids most of it in the whole repository. What it lets pass is looked for here, in what
is shipped: there, no exception is allowed but the ones that are listed.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = sorted((ROOT / "src").rglob("*.py")) + sorted((ROOT / "examples").rglob("*.py"))

FORBIDDEN = {
    "pickle.load", "pickle.loads", "pickle.Unpickler", "marshal.load", "marshal.loads", "shelve.open", "dill.load",
    "dill.loads", "cloudpickle.load", "cloudpickle.loads", "joblib.load", "yaml.load", "yaml.unsafe_load", "eval",
    "exec", "os.system", "os.popen", "np.fromfile", "numpy.fromfile",
}  # fmt: skip
# Its argument must be given, and must be this.
SAFE = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
}
ALLOWED = {
    # A rule's own bytes, made on the line itself, to see that it pickles.
    ("src/mixtailor/testing/laws.py", "pickle.loads"),
    ("src/mixtailor/testing/attack_laws.py", "pickle.loads"),  # and an attack's
}


def called(node: ast.Call) -> str:
    """The dotted name of what is called."""
    return ast.unparse(node.func) if isinstance(node.func, (ast.Name, ast.Attribute)) else ""


def offences(text: str) -> list[tuple[int, str]]:
    found = []
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call):
            continue
        name = called(node)
        if name in FORBIDDEN:
            found.append((node.lineno, name))
        elif name in SAFE:
            argument, value = SAFE[name]
            given = [keyword.value for keyword in node.keywords if keyword.arg == argument]
            if not (given and isinstance(given[0], ast.Constant) and given[0].value is value):
                found.append((node.lineno, name))
        elif any(keyword.arg == "shell" and ast.unparse(keyword.value) != "False" for keyword in node.keywords):
            found.append((node.lineno, f"{name} with a shell"))
    return found


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_from_outside_is_executed(path: Path) -> None:
    name = path.relative_to(ROOT).as_posix()
    found = [(line, what) for line, what in offences(path.read_text(encoding="utf-8")) if (name, what) not in ALLOWED]
    assert found == [], f"{name}: {found}"


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("torch.load(path)", True),
        ("torch.load(path, weights_only=False)", True),
        ("torch.load(path, weights_only=flag)", True),
        ("torch.load(path, weights_only=True)", False),
        ("np.load(path)", True),
        ("np.load(path, allow_pickle=False)", False),
        ("pickle.loads(data)", True),
        ("pickle.dumps(data)", False),
        ("yaml.load(data)", True),
        ("yaml.safe_load(data)", False),
        ("eval(text)", True),
        ("model.eval()", False),
        ("subprocess.run(command, shell=True)", True),
        ("subprocess.run(command)", False),
    ],
)
def test_the_search_finds_what_it_looks_for(line: str, wrong: bool) -> None:
    assert bool(offences(line)) is wrong


def test_exceptions_are_still_needed() -> None:
    for name, what in ALLOWED:
        assert what in [found for _, found in offences((ROOT / name).read_text(encoding="utf-8"))]
