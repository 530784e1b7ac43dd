"""Tests the completion of commands, options, sessions and filters, also in real shells."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine, add_upload_session
from pty_terminal import Terminal

from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    session = add_upload_session(store)
    store.notes.tag([session], ["two words", "ops"])
    add_upload_session(store, "telegram:7")
    store.sessions.set_title(store.sessions.get("telegram:7"), "Other\x1b[2J\tthing")
    add_upload_session(store, "gone")
    store.sessions.delete([store.sessions.get("gone")])
    return CommandLine(store.path)


def complete(cli: CommandLine, *words: str) -> list[str]:
    """Return the completions of the last word, without their descriptions. The store is left to its option."""
    return [line.partition("\t")[0] for line in describe(cli, *words)]


def describe(cli: CommandLine, *words: str) -> list[str]:
    result = CommandLine.__call__(cli, "_complete", "fish", "--store", str(cli.path), *words)
    assert (result.status, result.err) == (0, "")
    return result.lines


def test_commands_and_paths(cli: CommandLine) -> None:
    assert describe(cli, "una") == ["unarchive\t", ":files"]
    assert {"list", "show", "completion", "secrets"} <= {*complete(cli, "")}
    assert complete(cli, "secrets", "pa") == ["passphrase"]


def test_options(cli: CommandLine) -> None:
    assert describe(cli, "list", "--li") == ["--limit\tShow at most N sessions."]
    assert complete(cli, "rebuild", "telegram:7", "--as", "a") == ["anthropic"]
    assert describe(cli, "resume", "--cwd", "/t") == [":files"]


def test_sessions_by_either_id_with_their_titles(cli: CommandLine) -> None:
    assert describe(cli, "show", "telegram:6") == ["telegram:648079060\tFix the upload"]
    (other,) = describe(cli, "show", "telegram:7")
    assert other.startswith("telegram:7\tOther")
    assert "\x1b" not in other
    assert {*complete(cli, "pin", "telegram:7", "")} == {"telegram:648079060", "telegram:7"}
    assert complete(cli, "facts", "add", "x", "--session", "telegram:6") == ["telegram:648079060"]
    assert complete(cli, "show", "nothing") == []


def test_saved_searches(cli: CommandLine, store: Store) -> None:
    store.saved_searches.save("failing", "is:error after:3d")
    store.saved_searches.save("mine", "tag:ops")
    assert describe(cli, "list", "@f") == ["@failing\tis:error after:3d"]
    assert complete(cli, "list", "upload", "@") == ["@failing", "@mine"]


def test_only_restore_offers_the_trash(cli: CommandLine) -> None:
    assert complete(cli, "restore", "") == ["gone"]
    assert "gone" not in complete(cli, "show", "")


def test_filters_and_their_values(cli: CommandLine) -> None:
    assert describe(cli, "list", "ag") == ["agent:\tthe name of an agent"]
    assert complete(cli, "list", "is:pin") == ["is:pinned"]
    assert complete(cli, "list", "--", "-is:pin") == ["-is:pinned"]
    assert complete(cli, "search", "upload", "channel:") == ["channel:telegram"]
    assert complete(cli, "tools", "tool:") == ["tool:Bash", "tool:Edit", "tool:Read"]
    assert complete(cli, "list", "tag:") == ["tag:ops"]  # a value with a space would need quotes


@pytest.mark.parametrize("words", [["show", ""], ["list", "tool:"], ["list", "agent:"], [""], []])
def test_a_store_that_does_not_exist_is_not_made(tmp_path: Path, words: list[str]) -> None:
    missing = CommandLine(tmp_path / "no" / "store.db")
    describe(missing, *words)
    assert not missing.path.parent.exists()


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_damaged_store_completes_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(content)
    assert complete(CommandLine(path), "show", "") == []
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == content


@pytest.mark.parametrize("is_open", [False, True])
def test_nothing_is_written(cli: CommandLine, store: Store, is_open: bool) -> None:
    if not is_open:
        store.close()
    files = {path: path.read_bytes() for path in cli.path.parent.glob("store.db*") if not path.name.endswith("-shm")}
    names = {*cli.path.parent.iterdir()}
    assert complete(cli, "show", "telegram:6") == ["telegram:648079060"]
    assert complete(cli, "list", "tool:B") == ["tool:Bash"]
    assert {path: path.read_bytes() for path in files} == files
    assert {*cli.path.parent.iterdir()} == names


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("backscroll list agent:li", ["library"]),
        ("backscroll show telegram:6", ["648079060"]),
        ("backscroll show 'telegram:6", ["telegram:648079060"]),
        ("backscroll li", ["list", ":files"]),
        ("backscroll list is:pin", ["pinned"]),
        ("backscroll", []),
        ("", []),
    ],
)
def test_bash_gets_what_follows_the_last_colon(cli: CommandLine, line: str, expected: list[str]) -> None:
    result = cli("_complete", "bash", " \t\n\"'><=;|&(:", line.replace("backscroll ", f"x --store {cli.path} ", 1))
    completed = [row.partition("\t")[0] for row in result.lines]
    assert completed == expected if expected else result.status == 0


# ── real shells ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def _on_path(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a shell find `backscroll`, and let that find the store of the test."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("BACKSCROLL_STORE", str(cli.path))


def find_shell(name: str) -> Path:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    return Path(found)


def check_in_terminal(terminal: Terminal, *start: str) -> None:
    for line in start:
        terminal.press(line + "\n")
    terminal.press("echo rea''dy\n")
    terminal.wait_for_text("\nready")
    terminal.press("backscroll unarc\t")
    terminal.wait_for_text("backscroll unarchive")
    terminal.press("telegram:6\t")
    terminal.wait_for_text("backscroll unarchive telegram:648079060")
    terminal.press("\x15backscroll list ag\t")
    terminal.wait_for_text("backscroll list agent:")
    terminal.press("li\t")
    terminal.wait_for_text("backscroll list agent:library")
    terminal.press("\x15exit\n")
    assert terminal.wait_for_exit() == 0


@pytest.mark.usefixtures("_on_path")
def test_bash() -> None:
    with Terminal(find_shell("bash"), "--norc", "--noprofile", "-i") as terminal:
        check_in_terminal(terminal, 'eval "$(backscroll completion bash)"')


@pytest.mark.usefixtures("_on_path")
def test_zsh() -> None:
    with Terminal(find_shell("zsh"), "-f", "-i") as terminal:
        check_in_terminal(terminal, "autoload -Uz compinit; compinit -u -D", 'eval "$(backscroll completion zsh)"')


@pytest.mark.usefixtures("_on_path")
def test_fish() -> None:
    shell = find_shell("fish")

    def ask(line: str) -> list[str]:
        code = f'backscroll completion fish | source; complete -C "{line}"'
        ran = subprocess.run([shell, "--no-config", "-c", code], capture_output=True, text=True)
        assert ran.stderr == ""
        return ran.stdout.splitlines()

    assert ask("backscroll unarc") == ["unarchive"]
    assert ask("backscroll restore ") == ["gone\tFix the upload"]
    assert ask("backscroll show telegram:6") == ["telegram:648079060\tFix the upload"]
    assert ask("backscroll list ag") == ["agent:\tthe name of an agent"]
    assert ask("backscroll list is:pin") == ["is:pinned"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_says_where_to_put_it(cli: CommandLine, shell: str) -> None:
    printed = cli("completion", shell)
    assert printed.status == 0
    assert f"backscroll completion {shell}" in printed.out
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=printed.raw).returncode == 0


def test_an_unknown_shell_is_refused(cli: CommandLine) -> None:
    assert cli("completion", "tcsh").status == 2
