"""A fault in code that is already loaded: the code of functions is exchanged, so that everybody who has them has it."""

from __future__ import annotations

import ast
import dataclasses
import gc
import sys
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from campaigns.mutants.sites import Mutant, planted

Functions = dict[tuple[str, str], list[FunctionType]]


def functions(root: Path) -> Functions:
    """The functions that are loaded from below a folder, by file and qualified name."""
    for package in ("rules", "preaggregation", "mixing", "memory"):  # `import mixtailor` loads them when they are used
        import_module(f"mixtailor.{package}")
    found: Functions = {}
    for item in gc.get_objects():
        # By type, not by isinstance: that asks objects for their class, and some of torch's answer with a warning.
        if type(item) is FunctionType and item.__code__.co_filename.startswith(str(root)):
            key = item.__code__.co_filename, item.__code__.co_qualname
            found.setdefault(key, []).append(item)
    return found


def plant(root: Path, mutant: Mutant, loaded: Functions) -> bool:
    """Change what is loaded; False where it cannot be reached."""
    tree = planted(root, mutant)
    filename = str(root / mutant.path)
    if mutant.target:
        return _assign(filename, mutant, tree)
    codes = _codes(compile(tree, filename, "exec"))
    reached = False
    for function in loaded.get((filename, mutant.inside), []):
        code = codes.get((mutant.inside, function.__code__.co_firstlineno))
        if code is not None and code.co_freevars == function.__code__.co_freevars:
            function.__code__ = code
            reached = True
    return reached


def _codes(code: CodeType) -> dict[tuple[str, int], CodeType]:
    found = {(code.co_qualname, code.co_firstlineno): code}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(_codes(constant))
    return found


def _assign(filename: str, mutant: Mutant, tree: ast.Module) -> bool:
    module = next((m for m in list(sys.modules.values()) if getattr(m, "__file__", None) == filename), None)
    body: list[ast.stmt] = tree.body
    if mutant.inside:
        body = next(item.body for item in body if isinstance(item, ast.ClassDef) and item.name == mutant.inside)
    if module is None:
        return False
    for statement in body:
        if isinstance(statement, (ast.Assign, ast.AnnAssign)) and statement.value is not None:
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            if isinstance(target, ast.Name) and target.id == mutant.target:
                expression = ast.fix_missing_locations(ast.Expression(statement.value))
                value = eval(compile(expression, filename, "eval"), vars(module))  # noqa: S307  # our own file
                if mutant.inside:
                    return _set_default(getattr(module, mutant.inside), mutant.target, value)
                return _set_constant(module, mutant.target, value)
    return False


def _set_default(kind: Any, name: str, value: Any) -> bool:
    """A class's constant, or the default of a dataclass's parameter: where the signature has it, too."""
    value = value.default if isinstance(value, dataclasses.Field) else value
    for each in (kind, *kind.__subclasses__()):
        if name in vars(each):
            setattr(each, name, value)
        field = getattr(each, "__dataclass_fields__", {}).get(name)
        if field is None or field._field_type is not dataclasses._FIELD:  # type: ignore[attr-defined]  # private: what is a field and what a class variable
            continue
        field.default = value
        start = each.__init__
        if start.__kwdefaults__ and name in start.__kwdefaults__:
            start.__kwdefaults__[name] = value
        names = start.__code__.co_varnames[: start.__code__.co_argcount]
        if start.__defaults__ and name in names[-len(start.__defaults__) :]:
            defaults = list(start.__defaults__)
            defaults[names[-len(defaults) :].index(name)] = value
            start.__defaults__ = tuple(defaults)
    return True


def _set_constant(module: Any, name: str, value: Any) -> bool:
    before = vars(module)[name]
    for other in list(sys.modules.values()):
        if getattr(other, "__name__", "").startswith("mixtailor") and vars(other).get(name) is before:
            setattr(other, name, value)
    return True
