"""This module defines the command group `secrets`.

Names are always shown. A value is printed only on a terminal or with --reveal. Values and passphrases come from a
hidden prompt or from stdin, never from an argument or the environment, where other programs could read them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

import click

from store import paths
from store.cli import json_output, output
from store.cli.options import (
    cli_context,
    is_interactive,
    json_option,
    optional_session_argument,
    read_stdin,
    session_id_argument,
    with_store,
)
from store.cli.output import Span, TerminalText, format_age, format_count
from store.errors import BadValue, Refused, SecretLocked, WrongPassphrase
from store.model.knowledge import ExposedSecret, SecretInfo, SecretUse
from store.secrets.attempts import AttemptLog
from store.secrets.usage import find_uses
from store.store import Store

P = ParamSpec("P")
R = TypeVar("R")

passphrase_stdin_option = click.option(
    "--passphrase-stdin", is_flag=True, help="Read the passphrase from the first line of stdin."
)

_PROTECTIONS = {
    "none": "No secrets yet.",
    "file": "Protected by the key file: anyone who can use your account can open them.",
    "passphrase": "Protected by a passphrase.",
    "keyring": "Protected by a key in the system's keyring.",
}


@click.group()
def secrets() -> None:
    """Manage the secrets of sessions.

    A secret is a sealed (encrypted) value of a session. KEY is its name.
    """


def with_unlocked_store(command: Callable[Concatenate[Store, P], None]) -> Callable[..., None]:
    """Pass the store to a command with its vault unlocked. Ask for the passphrase if there is one."""

    @wraps(command)
    @passphrase_stdin_option
    def run_unlocked(*args: P.args, **kwargs: P.kwargs) -> None:
        store = cli_context().store
        passphrase = _read_stdin_line() if kwargs.pop("passphrase_stdin") else None
        if store.secrets.is_locked:
            _unlock(store, passphrase)
        command(store, *args, **kwargs)

    return run_unlocked


def run_with_unlock(store: Store, action: Callable[[], R], passphrase_stdin: bool) -> R:
    """Run an action that seldom needs a secret. Ask for the passphrase only if it does."""
    if passphrase_stdin:
        _unlock(store, _read_stdin_line())
    try:
        return action()
    except SecretLocked:
        _unlock(store)
        return action()


def _unlock(store: Store, passphrase: str | None = None) -> None:
    """Unlock the secrets. Ask for the passphrase if it is not given. After wrong passphrases, refuse for a while."""
    attempts = AttemptLog(store.path)
    if seconds := attempts.seconds_left():
        raise Refused(f"Too many wrong passphrases. Try again in {format_count(seconds, 'second')}.")
    try:
        store.secrets.unlock(_prompt_passphrase() if passphrase is None else passphrase)
    except WrongPassphrase:
        attempts.add_failure()
        raise
    attempts.reset()


def _prompt_passphrase() -> str:
    if not is_interactive():
        raise SecretLocked("The secrets are locked. Use --passphrase-stdin to pass the passphrase.")
    return _prompt_hidden("Passphrase")


def _read_stdin_line() -> str:
    return sys.stdin.buffer.readline().decode("utf-8", "surrogateescape").rstrip("\r\n")


def _prompt_hidden(label: str, twice: bool = False) -> str:
    answer: str = click.prompt(label, hide_input=True, confirmation_prompt=twice, err=True)
    return answer


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@secrets.command("list")
@optional_session_argument
@json_option
@with_store
def list_names(store: Store, session_id: str | None, as_json: bool) -> None:
    """List the names of secrets, never their values.

    With an ID, list only the secrets of that session.
    """
    session = store.sessions.find(session_id) if session_id else None
    names, exposed = store.secrets.names(session), store.secrets.exposed(session)
    uses = find_uses(store, session.key, [name.key for name in names]) if session else {}
    if as_json:
        output.emit_json(
            {
                "secrets": [json_output.secret_to_json(name) | _usage_to_json(uses.get(name.key)) for name in names],
                "exposed": [json_output.exposed_secret_to_json(secret) for secret in exposed],
            }
        )
        return
    rows = [[*_name_row(name), _format_turns(uses.get(name.key, []))] for name in names]
    output.print_table(["name", ":version", ":age", "session", "used in"], rows)
    output.notify(_PROTECTIONS[store.secrets.protection])
    for secret in exposed:
        _notify_exposed(secret)


def _notify_exposed(secret: ExposedSecret) -> None:
    command = f"backscroll secrets seal {secret.session_id} {secret.key}"
    output.notify(f"{secret.key} is plain text in {secret.locator} ({secret.place}). Run `{command}` to seal it.")


def _usage_to_json(uses: list[SecretUse] | None) -> dict[str, Any]:
    """Convert the uses of a secret. They are None without a session, since finding them reads the whole session."""
    return {} if uses is None else {"used": [use._asdict() for use in uses]}


def _format_turns(uses: list[SecretUse]) -> str:
    turns = ", ".join(str(turn) for turn in dict.fromkeys(use.turn for use in uses))
    return f"turn {turns}" if turns else ""


def _name_row(name: SecretInfo) -> list[Span]:
    return [TerminalText(name.key, "name"), str(name.version), format_age(name.created_at), name.session_id]


@secrets.command("set")
@session_id_argument
@click.argument("key")
@with_unlocked_store
def set_value(store: Store, session_id: str, key: str) -> None:
    """Set a secret.

    The value comes from a hidden prompt, or from stdin.
    """
    session = store.sessions.find(session_id)
    value = _prompt_hidden("Value", twice=True) if is_interactive() else _strip_final_newline(read_stdin())
    if not value:
        raise BadValue("The value is empty. Run `backscroll secrets rm` to remove a secret.")
    store.secrets.set(session, key, value)


@secrets.command("seal")
@session_id_argument
@click.argument("key")
@with_unlocked_store
def seal_foreign(store: Store, session_id: str, key: str) -> None:
    """Seal a secret that its source stores as plain text.

    The plain text stays in the store that the session came from.
    """
    store.write_back.seal(store.sessions.find(session_id), key)
    output.notify("Sealed. The agent's store still has the plain text: set a new one and run `backscroll write-back`.")


def _strip_final_newline(text: str) -> str:
    """Remove the newline that `echo` and editors add; `get` prints one again."""
    return text.removesuffix("\n").removesuffix("\r")


@secrets.command("get")
@session_id_argument
@click.argument("key")
@click.option("--reveal", is_flag=True, help="Print it even if stdout is not a terminal.")
@passphrase_stdin_option
@with_store
def get_value(store: Store, session_id: str, key: str, reveal: bool, passphrase_stdin: bool) -> None:
    """Print the value of a secret.

    If the secret is not sealed but plain text in its source, it is read there.
    """
    if not reveal and not output.stdout_is_terminal():
        raise Refused("Secrets are printed only to a terminal. Use --reveal to print it anyway.")
    session = store.sessions.find(session_id)
    exposed = next((secret for secret in store.secrets.exposed(session) if secret.key == key), None)
    if exposed is None:
        output.write(run_with_unlock(store, lambda: store.secrets.get(session, key), passphrase_stdin))
        return
    output.write(store.write_back.read_exposed(session, key))
    _notify_exposed(exposed)


@secrets.command("rm")
@session_id_argument
@click.argument("key")
@click.option("--forever", is_flag=True, help="Remove every version. This cannot be undone.")
@with_store
def remove(store: Store, session_id: str, key: str, forever: bool) -> None:
    """Remove a secret.

    `backscroll undo` restores it, unless you use --forever.
    """
    store.secrets.remove(store.sessions.find(session_id), key, forever)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


@secrets.command()
@with_unlocked_store
def rotate(store: Store) -> None:
    """Reseal every secret with a new key."""
    output.notify(f"{format_count(store.secrets.rotate(), 'sealed value')} resealed.")


@secrets.command()
@json_option
@with_unlocked_store
def verify(store: Store, as_json: bool) -> None:
    """Check that every secret can be opened."""
    problems = store.secrets.verify()
    if as_json:
        output.emit_json({"problems": [{"where": "secrets", "reason": problem} for problem in problems]})
    else:
        for problem in problems:
            output.write(TerminalText(problem, "bad"))
    if problems:
        raise click.exceptions.Exit(1)
    output.notify("Every secret can be opened.")


@secrets.command()
@passphrase_stdin_option
@with_store
def passphrase(store: Store, passphrase_stdin: bool) -> None:
    """Protect the secrets with a passphrase, or change it.

    Without a terminal, or with --passphrase-stdin, the new passphrase is a line of stdin. If there is an old one, it
    is the line before.
    """
    if store.secrets.is_locked:
        _unlock(store, _read_stdin_line() if passphrase_stdin else None)
    is_prompted = is_interactive() and not passphrase_stdin
    new = _prompt_hidden("New passphrase", twice=True) if is_prompted else _read_stdin_line()
    _change_protection(store, lambda: store.secrets.use_passphrase(new))


@secrets.command("key-file")
@with_unlocked_store
def key_file(store: Store) -> None:
    """Protect the secrets with a key file in the config folder."""
    _change_protection(store, store.secrets.use_key_file)


@secrets.command()
@with_unlocked_store
def keyring(store: Store) -> None:
    """Protect the secrets with the system's keyring."""
    _change_protection(store, store.secrets.use_keyring)


def _change_protection(store: Store, change: Callable[[], None]) -> None:
    """Change the protection, and say what still opens older copies of the store."""
    before = store.secrets.protection
    change()
    if before == "file" and store.secrets.protection != "file":
        output.notify(
            f"Older copies of the store, such as backups, can still be opened with the key file {paths.key_file()}. "
            "Delete those copies, or delete the key file if no other store uses it."
        )
    elif before in ("passphrase", "keyring"):
        key = "the old passphrase" if before == "passphrase" else "the key in the keyring"
        output.notify(
            f"Older copies of the store, such as backups, can still be opened with {key}. Delete those copies."
        )
