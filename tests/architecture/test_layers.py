"""Holds the rules that no single module can: who may import whom, and how big things may get."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CODE_FOLDERS = ("store", "tui", "tests", "screenshots")
GENERATED = {".git", ".venv", ".hypothesis", "build", "dist", "__pycache__"}

LONGEST_FILE = 700
LONGEST: dict[type[ast.AST], int] = {
    ast.ClassDef: 600,
    ast.FunctionDef: 50,
    ast.AsyncFunctionDef: 50,
}

# Written in halves, since this file is searched too.
REGISTRY_HOSTS = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "crates" + ".io")
# These run whatever a file tells them to, and the files we read come from strangers.
UNSAFE_TO_LOAD = {"marshal", "pickle", "shelve"}

LOAD_THE_WHOLE_STORE = """
import importlib, pkgutil, sys, store.cli
for module in pkgutil.walk_packages(store.__path__, "store."):
    try:
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    except ImportError as reason:
        if "backscroll[" not in str(reason):
            raise
sys.exit("textual was loaded" if "textual" in sys.modules else 0)
"""


def modules() -> list[Path]:
    return [path for folder in CODE_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def project_files() -> Iterator[Path]:
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [n for n in subfolders if n not in GENERATED and not n.endswith("_cache")]
        yield from (Path(folder, name) for name in names)


def files_that_say(pattern: str) -> list[str]:
    said = re.compile(pattern.encode())
    return [named(path) for path in project_files() if said.search(path.read_bytes())]


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_store_never_loads_textual() -> None:
    ran = run(sys.executable, "-c", LOAD_THE_WHOLE_STORE)
    assert ran.returncode == 0, ran.stderr


def test_import_contracts_are_kept() -> None:
    ran = run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_no_file_is_too_long() -> None:
    lengths = {named(path): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: n for name, n in lengths.items() if n > LONGEST_FILE} == {}


def test_no_class_or_function_is_too_long() -> None:
    too_long = [
        f"{named(path)}:{node.lineno} {node.name}"
        for path in modules()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= LONGEST[type(node)]
    ]
    assert too_long == []


def test_every_module_says_why_it_exists() -> None:
    assert [named(path) for path in modules() if not ast.get_docstring(parsed(path))] == []


def test_nothing_unsafe_is_loaded() -> None:
    found = {
        named(path): name for path in modules() for name in imports_of(path) if name.partition(".")[0] in UNSAFE_TO_LOAD
    }
    assert found == {}


def test_no_file_names_the_folder_it_was_made_in() -> None:
    assert files_that_say(rf"(?<![\w.-]){re.escape(str(ROOT))}(?!\w)") == []


def test_no_file_names_a_package_registry() -> None:
    assert files_that_say("|".join(map(re.escape, REGISTRY_HOSTS))) == []


def test_the_locks_hold_pins_and_hashes_only() -> None:
    allowed = re.compile(r"\s*#.*|[a-z0-9.-]+==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    locks = [ROOT / name for name in ("requirements.lock", "requirements-adk.lock")]
    lines = [line for lock in locks for line in lock.read_text("utf-8").splitlines()]
    assert [line for line in lines if not allowed.fullmatch(line)] == []
