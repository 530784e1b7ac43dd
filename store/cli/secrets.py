"""Secrets: names are shown, values only when somebody at a terminal, or --reveal, asks for one.

Values and passphrases come from a hidden prompt or from stdin, never from an argument or the environment, where every
program of the machine could read them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from store.cli import json_output, output
from store.cli.options import cli_context, is_interactive, json_option, read_stdin, session_id_argument, with_store
from store.cli.output import Span, TerminalText, format_age, format_count
from store.errors import BadValue, Refused, SecretLocked
from store.model.knowledge import SecretInfo, SecretUse
from store.secrets.usage import find_uses
from store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

passphrase_stdin_option = click.option(
    "--passphrase-stdin", is_flag=True, help="The first line of stdin is the passphrase of the secrets."
)

_PROTECTIONS = {
    "none": "There are no secrets yet.",
    "file": "Sealed with the key file: whoever has your account can open them.",
    "passphrase": "Sealed with a passphrase.",
    "keyring": "Sealed with a key in the system's keyring.",
}


@click.group()
def secrets() -> None:
    """Sealed values, per session and name."""


def with_unlocked_store(command: Callable[Concatenate[Store, P], None]) -> Callable[..., None]:
    """Hands over the store with its secrets open, having asked for the passphrase where one is needed."""

    @wraps(command)
    @passphrase_stdin_option
    def opened(*args: P.args, **kwargs: P.kwargs) -> None:
        store = cli_context().store
        given = _read_stdin_line() if kwargs.pop("passphrase_stdin") else None
        if store.secrets.is_locked:
            store.secrets.unlock(_prompt_passphrase() if given is None else given)
        command(store, *args, **kwargs)

    return opened


def run_with_unlock(store: Store, action: Callable[[], R], passphrase_stdin: bool) -> R:
    """For what seldom touches a secret: the passphrase is asked for only once one has to be opened."""
    if passphrase_stdin:
        store.secrets.unlock(_read_stdin_line())
    try:
        return action()
    except SecretLocked:
        store.secrets.unlock(_prompt_passphrase())
        return action()


def _prompt_passphrase() -> str:
    if not is_interactive():
        raise SecretLocked("The secrets are locked; give the passphrase on stdin with --passphrase-stdin.")
    return _prompt_hidden("Passphrase")


def _read_stdin_line() -> str:
    return sys.stdin.buffer.readline().decode("utf-8", "surrogateescape").rstrip("\r\n")


def _prompt_hidden(what: str, twice: bool = False) -> str:
    asked: str = click.prompt(what, hide_input=True, confirmation_prompt=twice, err=True)
    return asked


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@secrets.command("list")
@click.argument("session_id", metavar="[ID]", required=False)
@json_option
@with_store
def list_names(store: Store, session_id: str | None, as_json: bool) -> None:
    """The names of the secrets, of one session or of all; never a value."""
    session = store.sessions.find(session_id) if session_id else None
    names, exposed = store.secrets.names(session), store.secrets.exposed(session)
    used = find_uses(store, session.key, [name.key for name in names]) if session else {}
    if as_json:
        open_ones = [json_output.exposed_secret_to_json(one) for one in exposed]
        told = [json_output.secret_to_json(name) | _usage_to_json(used.get(name.key)) for name in names]
        output.emit_json({"secrets": told, "exposed": open_ones})
        return
    rows = [[*_name_row(name), _format_turns(used.get(name.key, []))] for name in names]
    output.print_table(["name", ":version", ":age", "session", "used in"], rows)
    output.notify(_PROTECTIONS[store.secrets.protection])
    for one in exposed:
        output.notify(
            f"{one.key} lies open in {one.locator} ({one.place}); `backscroll secrets seal {one.session_id} {one.key}`."
        )


def _usage_to_json(used: list[SecretUse] | None) -> dict[str, Any]:
    """Only of one session: all of them would have to be read through."""
    return {} if used is None else {"used": [use._asdict() for use in used]}


def _format_turns(used: list[SecretUse]) -> str:
    turns = ", ".join(str(turn) for turn in dict.fromkeys(use.turn for use in used))
    return f"turn {turns}" if turns else ""


def _name_row(name: SecretInfo) -> list[Span]:
    return [TerminalText(name.key, "name"), str(name.version), format_age(name.created_at), name.session_id]


@secrets.command("set")
@session_id_argument
@click.argument("key")
@with_unlocked_store
def set_value(store: Store, session_id: str, key: str) -> None:
    """Seal a value, which comes from stdin or a hidden prompt."""
    session = store.sessions.find(session_id)
    value = _prompt_hidden("Value", twice=True) if is_interactive() else _strip_final_newline(read_stdin())
    if not value:
        raise BadValue("The value is empty; `secrets rm` removes a secret.")
    store.secrets.set(session, key, value)


@secrets.command("seal")
@session_id_argument
@click.argument("key")
@with_unlocked_store
def seal_foreign(store: Store, session_id: str, key: str) -> None:
    """Seal a value that lies open in the store its session came from."""
    store.write_back.seal(store.sessions.find(session_id), key)
    output.notify("Sealed here. It still lies open there: change it where it is used, and `write-back` the new one.")


def _strip_final_newline(text: str) -> str:
    """What `echo` and editors add; `get` puts it back."""
    return text.removesuffix("\n").removesuffix("\r")


@secrets.command("get")
@session_id_argument
@click.argument("key")
@click.option("--reveal", is_flag=True, help="Also where stdout is no terminal.")
@with_unlocked_store
def get_value(store: Store, session_id: str, key: str, reveal: bool) -> None:
    """Show a value."""
    if not reveal and not output.stdout_is_terminal():
        raise Refused("A secret is printed to a terminal only; --reveal prints it anywhere.")
    output.write(store.secrets.get(store.sessions.find(session_id), key))


@secrets.command("rm")
@session_id_argument
@click.argument("key")
@click.option("--forever", is_flag=True, help="Every version, beyond undo.")
@with_store
def remove(store: Store, session_id: str, key: str, forever: bool) -> None:
    """Remove a secret; `undo` brings it back unless it was --forever."""
    store.secrets.remove(store.sessions.find(session_id), key, forever)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@secrets.command()
@with_unlocked_store
def rotate(store: Store) -> None:
    """Seal everything anew with a new key."""
    output.notify(f"{format_count(store.secrets.rotate(), 'sealed value')} sealed anew.")


@secrets.command()
@json_option
@with_unlocked_store
def verify(store: Store, as_json: bool) -> None:
    """Open every sealed value to see that it can be opened."""
    problems = store.secrets.verify()
    if as_json:
        output.emit_json({"problems": [{"where": "secrets", "reason": problem} for problem in problems]})
    else:
        for problem in problems:
            output.write(TerminalText(problem, "bad"))
    if problems:
        raise click.exceptions.Exit(1)
    output.notify("Every secret opens.")


@secrets.command()
@with_unlocked_store
def passphrase(store: Store) -> None:
    """Protect the secrets by a passphrase from now on, or by a new one."""
    store.secrets.use_passphrase(
        _prompt_hidden("New passphrase", twice=True) if is_interactive() else _read_stdin_line()
    )


@secrets.command("key-file")
@with_unlocked_store
def key_file(store: Store) -> None:
    """Protect the secrets by a key file in the config folder from now on."""
    store.secrets.use_key_file()


@secrets.command()
@with_unlocked_store
def keyring(store: Store) -> None:
    """Protect the secrets by the system's keyring from now on."""
    store.secrets.use_keyring()
