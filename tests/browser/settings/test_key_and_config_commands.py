"""Tests the commands `keys` and `config`."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from command_line import CommandLine, CommandResult

from store.config import SETTINGS
from store.paths import config_file
from store.store import Store
from tui.main import COMMANDS
from tui.palette import all_bindings
from tui.settings import Settings, is_key


@pytest.fixture
def backscroll(store: Store) -> CommandLine:
    return CommandLine(store.path, browser_commands=COMMANDS)


def configure(text: str) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text)


def uncomment(printed: CommandResult) -> str:
    """Return the file with all defaults set."""
    lines = [line.removeprefix("# ") if " = " in line else line for line in printed.lines]
    return "\n".join(lines)


def test_keys_lists_every_action(backscroll: CommandLine) -> None:
    listed = {row["action"]: row for row in backscroll("keys", "--json").json["keys"]}
    assert listed.keys() == {binding.id for binding in all_bindings() if binding.id and is_key(binding.key)}
    assert all(row["keys"] and row["meaning"] for row in listed.values())
    rows = backscroll("keys").rows
    assert ["app.quit", "q", "Quit Backscroll"] in rows
    assert len(rows) == len(listed)


def test_the_keys_of_the_app_are_listed(store: Store) -> None:
    """The command loads what it lists, also where nothing else has loaded it."""
    code = "import sys, tui.main; sys.argv = ['backscroll', 'keys']; sys.exit(tui.main.main())"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "\napp.quit\tq" in ran.stdout, ran.stderr


def test_keys_shows_the_keys_of_the_config_file(backscroll: CommandLine) -> None:
    configure('[browser]\nkeymap = "vim"\n[browser.keys]\n"app.quit" = "f10"\n"app.qiut" = "f10"\n')
    result = backscroll("keys", "--json")
    listed = {row["action"]: (row["keys"], row["default"]) for row in result.json["keys"]}
    assert listed["app.quit"][0] == "f10"
    assert listed["list.fold"] == ("left,h", "left")
    assert "no such action: 'app.qiut'. Did you mean app.quit?" in result.err


def test_config_prints_every_setting_as_a_comment(backscroll: CommandLine) -> None:
    printed = backscroll("config")
    assert printed.lines[0] == f"# Settings of Backscroll, read from {config_file()}. It does not exist yet."
    assert tomllib.loads(printed.out) == {"store": {}, "browser": {"keys": {}}, "facts": {}} | {
        setting.section: {} for setting in SETTINGS.values() if setting.section != "browser"
    }
    for setting in SETTINGS.values():
        assert f"# {setting.meaning}" in printed.lines


def test_the_defaults_can_be_written_to_the_file(backscroll: CommandLine) -> None:
    configure(uncomment(backscroll("config")))
    settings = Settings()
    settings.check_own_keys({binding.id or "" for binding in all_bindings()})
    assert settings.problems == []
    values = {(row["section"], row["key"]): row for row in backscroll("config", "--json").json["settings"]}
    assert all(row["value"] == row["default"] for row in values.values())
    assert len(values) == len(SETTINGS)


def test_config_shows_what_the_file_sets(backscroll: CommandLine) -> None:
    configure('[browser]\ntheme = "Ru\\"by"\nmoton = 7\nmotion = 1979-05-27\n[browser.keys]\n"app.quit" = "f10"\n')
    printed = backscroll("config")
    assert printed.lines[0] == f"# Settings of Backscroll, read from {config_file()}."
    assert tomllib.loads(printed.out)["browser"] == {"theme": 'Ru"by', "keys": {"app.quit": "f10"}}
    assert "no such setting: [browser] moton. Did you mean motion?" in printed.err
    assert "[browser] motion must be true or false." in printed.err


def test_a_file_that_cannot_be_read_is_an_error(backscroll: CommandLine) -> None:
    configure("[browser")
    result = backscroll("config")
    assert (result.status, result.out) == (1, "")
    assert "cannot be read" in result.err
