"""Where a fault can be planted, and which."""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
NAMES = {
    "min": "max", "max": "min", "any": "all", "all": "any", "argmin": "argmax", "argmax": "argmin", "floor": "ceil",
    "ceil": "floor", "minimum": "maximum", "maximum": "minimum", "mean": "median", "zeros": "ones", "ones": "zeros",
}  # fmt: skip
# What only words a message is no decision.
WORDS = {"refuse", "warn", "plural", "listing", "nearest"}


@dataclass(frozen=True)
class Mutant:
    """One fault: `number` counts the faults of a file."""

    path: str
    number: int
    line: int
    inside: str  # the outermost function, as "Class.method"; the class or "" for what stands outside of functions
    target: str  # what is assigned to, outside of functions; "" inside
    kind: str
    before: str
    after: str
    nth: int = 0  # of those that read the same in the same place

    def __str__(self) -> str:
        return f"{self.path}:{self.line} in {self.inside or 'module'}: {self.before}  ->  {self.after}"


def faults(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The kinds of fault that fit a node, each with what takes its place."""
    if isinstance(node, ast.Compare):
        for place, operator in enumerate(node.ops):
            for other in COMPARISONS[type(operator)]:
                changed = copy.deepcopy(node)
                changed.ops[place] = other()
                yield "comparison", changed
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _joins_text(node):
        yield "operator", ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
    elif isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
        yield "operator", ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
        yield "dropped", ast.Pass()
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        # One more is no other number beyond 2^53.
        yield "constant", ast.Constant(node.value + 1 if node.value + 1 != node.value else 2 * node.value)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield "constant", ast.Constant(not node.value)
    elif isinstance(node, ast.BoolOp):
        yield "connective", ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and not isinstance(node.op, ast.UAdd):
        yield "sign", node.operand
    elif isinstance(node, ast.Return) and node.value is not None and not _is_none(node.value):
        yield "return", ast.Return(ast.Constant(None))
    elif isinstance(node, ast.Raise) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        # A function can only be given code that asks for the same cells, and `super()` asks for that of the class.
        yield "dropped", ast.Expr(ast.Name("__class__", ast.Load())) if _calls_super(node) else ast.Pass()
    elif isinstance(node, (ast.If, ast.While, ast.IfExp)) and not _has_faults_of_its_own(node.test):
        changed = copy.deepcopy(node)
        changed.test = ast.UnaryOp(ast.Not(), node.test)
        yield "condition", changed
    elif isinstance(node, (ast.Continue, ast.Break)):
        yield "loop", ast.Break() if isinstance(node, ast.Continue) else ast.Continue()
    elif isinstance(node, ast.Name) and node.id in NAMES and isinstance(node.ctx, ast.Load):
        if NAMES[node.id] in ("min", "max", "any", "all"):
            yield "name", ast.Name(NAMES[node.id], ast.Load())
    elif isinstance(node, ast.Attribute) and node.attr in NAMES and isinstance(node.ctx, ast.Load):
        yield "name", ast.Attribute(node.value, NAMES[node.attr], ast.Load())


def _has_faults_of_its_own(test: ast.expr) -> bool:
    return (isinstance(test, ast.Compare) and len(test.ops) == 1) or isinstance(test, ast.UnaryOp)


def _calls_super(node: ast.AST) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id == "super" for inner in ast.walk(node))


def _is_none(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _joins_text(node: ast.BinOp) -> bool:
    return any(
        isinstance(side, ast.JoinedStr) or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in (node.left, node.right)
    )


class _Walk(ast.NodeTransformer):
    """Visits every node that may hold a fault, in order; plants the one that is wanted."""

    def __init__(self, wanted: int | None = None) -> None:
        self.wanted, self.count = wanted, 0
        self.found: list[tuple[int, int, str, str, str, str, str]] = []
        self.scopes: list[str] = []
        self.target = ""
        self.functions = 0

    def visit(self, node: ast.AST) -> ast.AST:
        if _says_nothing(node):
            return node
        scoped = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        if scoped and not self.functions:
            self.scopes.append(node.name)  # type: ignore[attr-defined]  # all three have one
        self.functions += isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        entered = self.functions
        planted: ast.AST | None = None
        for kind, changed in faults(node) if self.functions or self.target else ():
            if self.count == self.wanted:
                planted = ast.fix_missing_locations(ast.copy_location(changed, node))
            elif self.wanted is None:
                inside = ".".join(self.scopes)
                line = getattr(node, "lineno", 0)
                self.found.append((self.count, line, inside, self.target, kind, _text(node), _text(changed)))
            self.count += 1
        self._children(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions = entered - 1
        if scoped and not self.functions:
            self.scopes.pop()
        return node if planted is None else planted

    def _children(self, node: ast.AST) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            # Decorators, annotations and defaults belong to what stands around the function.
            node.body = [self.visit(child) for child in node.body]  # type: ignore[misc]  # a visitor returns any node
        elif isinstance(node, ast.ClassDef):
            node.body = [self.visit(child) for child in node.body]  # type: ignore[misc]  # as above
        elif isinstance(node, (ast.AnnAssign, ast.Assign)):
            # Outside of functions, numbers that are assigned to one name: defaults of parameters and constants.
            name = node.target if isinstance(node, ast.AnnAssign) else node.targets[0]
            self.target = name.id if not self.functions and isinstance(name, ast.Name) else ""
            if node.value is not None and (self.functions or _is_number(node.value)):
                node.value = self.visit(node.value)  # type: ignore[assignment]  # as above
            self.target = ""
        elif isinstance(node, ast.arguments):
            pass
        elif isinstance(node, ast.Call) and self.target:
            node.keywords = [self._default(keyword) for keyword in node.keywords]
        else:
            self.generic_visit(node)

    def _default(self, keyword: ast.keyword) -> ast.keyword:
        if keyword.arg == "default":
            keyword.value = self.visit(keyword.value)  # type: ignore[assignment]  # as above
        return keyword


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", "") == "field"
    return not isinstance(node, (ast.Dict, ast.Tuple, ast.List, ast.Set))


def _says_nothing(node: ast.AST) -> bool:
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return True
    if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
        return True
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        return called in WORDS or called.endswith(("Error", "Warning"))
    return False


def _text(node: ast.AST) -> str:
    if isinstance(node, (ast.If, ast.While)):
        return f"{type(node).__name__.lower()} {ast.unparse(node.test)}"
    return " ".join(ast.unparse(node).split())[:100]


def mutants(root: Path, path: str) -> list[Mutant]:
    """All faults of one file."""
    walk = _Walk()
    walk.visit(ast.parse((root / path).read_text(encoding="utf-8")))
    found: list[Mutant] = []
    alike: Counter[tuple[str, ...]] = Counter()
    for number, line, *words in walk.found:
        found.append(Mutant(path, number, line, *words, nth=alike[tuple(words)]))
        alike[tuple(words)] += 1
    return found


def planted(root: Path, mutant: Mutant) -> ast.Module:
    """The file with one fault in it."""
    tree = _Walk(mutant.number).visit(ast.parse((root / mutant.path).read_text(encoding="utf-8")))
    assert isinstance(tree, ast.Module)
    return ast.fix_missing_locations(tree)
