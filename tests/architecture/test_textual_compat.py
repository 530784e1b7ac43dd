"""These tests check that only `tui/textual_compat.py` uses private attributes of Textual."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMPAT = Path("tui/textual_compat.py")
PRIVATE_NAME = re.compile(r"_[a-z]\w*\Z")
PUBLIC_NAMES = frozenset({"_asdict", "_fields", "_make", "_replace"})
"""These methods of named tuples are public."""


def list_files() -> list[Path]:
    return [path.relative_to(ROOT) for path in sorted((ROOT / "tui").rglob("*.py"))]


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def is_self_access(node: ast.AST) -> bool:
    """Whether a node is `self.x`, `cls.x` or `super().x`."""
    if not isinstance(node, ast.Attribute):
        return False
    owner = node.value
    if isinstance(owner, ast.Call):
        return isinstance(owner.func, ast.Name) and owner.func.id == "super"
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def find_defined_names(node: ast.AST) -> Iterator[str]:
    """Yield the private names that classes define: methods, class attributes, and attributes set on self."""
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and PRIVATE_NAME.match(child.name):
            yield child.name
        elif isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store) and is_self_access(child):
            yield child.attr
        elif isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store) and PRIVATE_NAME.match(child.id):
            yield child.id


def find_used_names(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the private names that a class defines or reads on itself, with their lines."""
    for child in ast.walk(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) and PRIVATE_NAME.match(child.name):
            yield child.name, child.lineno
        elif isinstance(child, ast.Attribute) and PRIVATE_NAME.match(child.attr) and is_self_access(child):
            yield child.attr, child.lineno


@cache
def find_class(module: str, name: str) -> ast.ClassDef | None:
    file = inspect.getsourcefile(sys.modules[module])
    tree = parse(Path(file)) if file else ast.Module([], [])
    return next((node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name), None)


@cache
def list_textual_names(module: str, name: str) -> frozenset[str]:
    """Return the private names of a class of Textual."""
    node = find_class(module, name)
    return frozenset(find_defined_names(node)) if node else frozenset()


def find_foreign_accesses(path: Path, own_names: frozenset[str]) -> Iterator[str]:
    """Yield each access to a private attribute of an object that is none of ours, and each private import."""
    for node in ast.walk(parse(ROOT / path)):
        if isinstance(node, ast.Attribute) and not is_self_access(node) and PRIVATE_NAME.match(node.attr):
            if node.attr not in own_names:
                yield f"{path}:{node.lineno} {node.attr}"
        elif isinstance(node, ast.ImportFrom) and re.match(r"textual\b.*\._", node.module or ""):
            yield f"{path}:{node.lineno} {node.module}"


def find_inherited_uses(path: Path) -> Iterator[str]:
    """Yield each private name of Textual that a subclass overrides, sets or reads."""
    module = import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
    for node in ast.walk(parse(ROOT / path)):
        kind = vars(module).get(node.name) if isinstance(node, ast.ClassDef) else None
        if isinstance(kind, type):
            bases = [base for base in kind.__mro__ if base.__module__.startswith("textual.")]
            inherited = {name for base in bases for name in list_textual_names(base.__module__, base.__name__)}
            yield from (f"{path}:{line} {name}" for name, line in find_used_names(node) if name in inherited)


def find_private_uses(paths: list[Path]) -> list[str]:
    own_names = PUBLIC_NAMES | frozenset(
        name for path in list_files() for name in find_defined_names(parse(ROOT / path))
    )
    foreign = [use for path in paths for use in find_foreign_accesses(path, own_names)]
    return foreign + [use for path in paths for use in find_inherited_uses(path)]


def test_only_textual_compat_uses_private_attributes_of_textual() -> None:
    assert find_private_uses([path for path in list_files() if path != COMPAT]) == []


def test_the_check_finds_the_uses_in_textual_compat() -> None:
    names = {use.split()[-1] for use in find_private_uses([COMPAT])}
    assert {"_skip", "_compositor", "_dirty_regions", "_get_renders", "textual._compositor"} <= names


def test_every_function_of_textual_compat_says_why() -> None:
    nodes = [node for node in parse(ROOT / COMPAT).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert [node.name for node in nodes if not ast.get_docstring(node)] == []
