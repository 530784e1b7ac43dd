"""This module checks the rules that concern the whole tree: imports, sizes, names and links."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("store", "tui")
CODE_FOLDERS = (*PACKAGES, "tests", "screenshots")
GENERATED = {".git", ".venv", ".hypothesis", "build", "dist", "__pycache__", "snapshot_report.html"}

MAX_FILE_LINES = 700
MAX_README_LINES = 200
MAX_LINES: dict[type[ast.AST], int] = {
    ast.ClassDef: 600,
    ast.FunctionDef: 50,
    ast.AsyncFunctionDef: 50,
}

MAX_MODULES_OF_A_PACKAGE = 12
"""Limits the modules directly in store/ and tui/; the others belong to a component and its folder."""

MAX_MODULES_OF_A_FOLDER = 30
MAX_REPEATED_LINES = 5
"""Limits the lines that two functions share. More of them belong into a function that both call."""

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-adk.lock")
MAX_SHARE_OF_ING_NAMES = 0.05
"""Limits the modules whose names end in -ing: a module is named with a noun of the domain."""

# Classes of these bases have nothing in common, so they are no reason to share a name.
GENERIC_BASES = {"ABC", "Enum", "Exception", "NamedTuple", "Protocol", "TypedDict"}

# These names are joined from halves because the test searches this file, too.
REGISTRY_HOSTS = ("py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "crates" + ".io")
# These modules run code that a file contains, and the files that we read come from strangers.
UNSAFE_TO_LOAD = {"marshal", "pickle", "shelve"}

IMPORT_EVERY_STORE_MODULE = """
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

MARKDOWN_LINK = re.compile(r"\]\(([^)\s]+)\)")
MARKDOWN_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
CODE_BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


class ClassDefinition(NamedTuple):
    location: str
    outer_class: str
    "Is empty for a class of the module itself."
    bases: frozenset[str]

    @property
    def is_nested_message(self) -> bool:
        return bool(self.outer_class) and any(base.endswith("Message") for base in self.bases)


def modules(*folders: str) -> list[Path]:
    return [path for folder in folders or CODE_FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]


@cache
def parse_module(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def project_files() -> Iterator[Path]:
    for folder, subfolders, names in os.walk(ROOT):
        subfolders[:] = [name for name in subfolders if name not in GENERATED and not name.endswith("_cache")]
        yield from (Path(folder, name) for name in names if name not in GENERATED)


def find_files_with(pattern: str) -> list[str]:
    compiled = re.compile(pattern.encode())
    return [relative_name(path) for path in project_files() if compiled.search(path.read_bytes())]


def relative_name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def find_imports(path: Path) -> Iterator[str]:
    for node in ast.walk(parse_module(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def find_classes(node: ast.AST, path: Path, outer_class: str = "") -> Iterator[tuple[str, ClassDefinition]]:
    for child in ast.iter_child_nodes(node):
        inner = outer_class
        if isinstance(child, ast.ClassDef):
            bases = frozenset(ast.unparse(base) for base in child.bases)
            yield child.name, ClassDefinition(f"{relative_name(path)}:{child.lineno}", outer_class, bases)
            inner = child.name
        yield from find_classes(child, path, inner)


def may_share_a_name(classes: list[ClassDefinition]) -> bool:
    """Return whether the classes implement one contract, or are messages that belong to different widgets."""
    shared_bases = frozenset.intersection(*(found.bases for found in classes)) - GENERIC_BASES
    return bool(shared_bases) or all(found.is_nested_message for found in classes)


def heading_anchors(path: Path) -> set[str]:
    """Return the anchors of a Markdown file, derived from its headings as GitHub derives them."""
    headings = MARKDOWN_HEADING.findall(CODE_BLOCK.sub("", path.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def find_dead_links(path: Path) -> Iterator[str]:
    for link in MARKDOWN_LINK.findall(CODE_BLOCK.sub("", path.read_text("utf-8"))):
        name, _, anchor = link.partition("#")
        if "://" in link or link.startswith("mailto:"):
            continue
        target = path.parent / name if name else path
        if not target.exists() or (anchor and anchor not in heading_anchors(target)):
            yield f"{relative_name(path)}: {link}"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


# ── imports ───────────────────────────────────────────────────────────────────────────────────────


def test_the_store_never_loads_textual() -> None:
    ran = run(sys.executable, "-c", IMPORT_EVERY_STORE_MODULE)
    assert ran.returncode == 0, ran.stderr


def test_import_contracts_are_kept() -> None:
    ran = run(str(Path(sys.executable).with_name("lint-imports")), "--no-cache")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_nothing_unsafe_is_loaded() -> None:
    unsafe = {
        relative_name(path): name
        for path in modules()
        for name in find_imports(path)
        if name.partition(".")[0] in UNSAFE_TO_LOAD
    }
    assert unsafe == {}


# ── sizes ─────────────────────────────────────────────────────────────────────────────────────────


def test_no_file_is_too_long() -> None:
    lengths = {relative_name(path): len(path.read_text("utf-8").splitlines()) for path in modules()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_no_class_or_function_is_too_long() -> None:
    too_long = [
        f"{relative_name(path)}:{node.lineno} {node.name}"
        for path in modules()
        for node in ast.walk(parse_module(path))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (node.end_lineno or 0) - node.lineno >= MAX_LINES[type(node)]
    ]
    assert too_long == []


def test_no_folder_has_too_many_modules() -> None:
    counts = Counter(relative_name(path.parent) for path in modules())
    limits = dict.fromkeys(PACKAGES, MAX_MODULES_OF_A_PACKAGE)
    too_full = {
        folder: count for folder, count in counts.items() if count > limits.get(folder, MAX_MODULES_OF_A_FOLDER)
    }
    assert too_full == {}


def find_runs_of_lines(path: Path, length: int) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield every run of so many lines in a function, without blank lines and comments, and the place of the run."""
    lines = path.read_text("utf-8").splitlines()
    for node in ast.walk(parse_module(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            numbers = range(node.body[0].lineno, (node.end_lineno or 0) + 1)
            body = [(number, lines[number - 1].strip()) for number in numbers]
            body = [(number, line) for number, line in body if line and not line.startswith("#")]
            for start in range(len(body) - length + 1):
                run = tuple(line for _, line in body[start : start + length])
                yield run, f"{relative_name(path)}:{body[start][0]}"


def test_no_two_functions_share_six_lines() -> None:
    places: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for path in modules(*PACKAGES):
        for run, place in find_runs_of_lines(path, MAX_REPEATED_LINES + 1):
            places[run].add(place)
    assert [sorted(found) for found in places.values() if len(found) > 1] == []


# ── names and docstrings ──────────────────────────────────────────────────────────────────────────


def test_every_module_has_a_docstring() -> None:
    assert [relative_name(path) for path in modules() if not ast.get_docstring(parse_module(path))] == []


def test_few_module_names_end_in_ing() -> None:
    paths = modules(*PACKAGES)
    ing_names = [relative_name(path) for path in paths if path.stem.endswith("ing")]
    assert len(ing_names) <= MAX_SHARE_OF_ING_NAMES * len(paths), ing_names


def test_classes_with_the_same_name_implement_the_same_contract() -> None:
    definitions: defaultdict[str, list[ClassDefinition]] = defaultdict(list)
    for path in modules(*PACKAGES):
        for name, definition in find_classes(parse_module(path), path):
            definitions[name].append(definition)
    shared = {
        name: [found.location for found in classes]
        for name, classes in definitions.items()
        if len(classes) > 1 and not may_share_a_name(classes)
    }
    assert shared == {}


# ── documents and other files ─────────────────────────────────────────────────────────────────────


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= MAX_README_LINES


def test_documents_have_no_dead_links() -> None:
    documents = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert [link for path in documents for link in find_dead_links(path)] == []


def test_no_file_names_the_folder_it_was_made_in() -> None:
    assert find_files_with(rf"(?<![\w.-]){re.escape(str(ROOT))}(?!\w)") == []


def test_no_file_names_a_package_registry() -> None:
    assert find_files_with("|".join(map(re.escape, REGISTRY_HOSTS))) == []


def test_the_locks_hold_pins_and_hashes_only() -> None:
    allowed = re.compile(r"\s*#.*|[a-z0-9.-]+==\S+( ; .+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    lines = [line for lock in LOCKS for line in (ROOT / lock).read_text("utf-8").splitlines()]
    assert [line for line in lines if not allowed.fullmatch(line)] == []


def read_dependencies() -> tuple[list[str], dict[str, list[str]]]:
    """Return the dependencies of the project, and those of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    return project["dependencies"], project["optional-dependencies"]


def find_pins(*locks: str) -> set[str]:
    lines = [line for lock in locks for line in (ROOT / lock).read_text("utf-8").splitlines()]
    return {name for name, equals, _ in (line.partition("==") for line in lines) if equals}


def test_every_extra_is_locked() -> None:
    """An extra whose packages are in no lock would be tested by nobody."""
    needed, extras = read_dependencies()
    names = {re.split(r"[^\w.-]", line.lower())[0] for lines in (needed, *extras.values()) for line in lines}
    assert names - find_pins(*LOCKS) == {"backscroll"}


def test_running_needs_no_package_for_development() -> None:
    _, extras = read_dependencies()
    pinned = find_pins("requirements.lock")
    assert {"pytest", "textual-dev"} <= set(extras["dev"])
    assert pinned & set(extras["dev"]) == set()
    assert {"textual", "sqlite-utils", "pyperclip"} <= pinned
