"""These tests cover the command group `secrets`: values come from stdin and are printed only on request."""

from __future__ import annotations

import time

import pytest
from command_line import CommandLine, add_upload_session

from store.paths import attempts_file, key_file
from store.store import Store

SECRET = {"session", "key", "version", "created_at", "used"}
NAME = "telegram:648079060"


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


def seal(cli: CommandLine, key: str = "token", value: str = "hunter2\n") -> None:
    assert cli("secrets", "set", "telegram", key, stdin=value).status == 0


def reveal(cli: CommandLine, key: str = "token") -> str:
    return cli("secrets", "get", "telegram", key, "--reveal").out


def test_a_secret_is_sealed_and_revealed(cli: CommandLine, store: Store) -> None:
    seal(cli)
    assert store.get_secret(NAME, "token") == "hunter2"
    assert reveal(cli) == "hunter2\n"


def test_line_breaks_inside_a_value_are_kept(cli: CommandLine, store: Store) -> None:
    seal(cli, "pem", "-----BEGIN-----\nabc\n-----END-----\n")
    assert reveal(cli, "pem") == "-----BEGIN-----\nabc\n-----END-----\n"


def test_a_value_is_not_printed_into_a_pipe_by_accident(cli: CommandLine) -> None:
    seal(cli)
    ran = cli("secrets", "get", "telegram", "token")
    assert (ran.status, ran.out) == (1, "")
    assert "--reveal" in ran.err


def test_names_are_listed_and_values_never(cli: CommandLine, store: Store) -> None:
    store.create_session("other")
    seal(cli)
    seal(cli, value="hunter3")
    cli("secrets", "set", "other", "key", stdin="hunter4")
    document = cli("secrets", "list", "telegram", "--json").json
    assert document.keys() == {"schema", "secrets", "exposed"}
    (secret,) = document["secrets"]
    assert secret.keys() == SECRET
    assert (secret["session"], secret["key"], secret["version"]) == (NAME, "token", 2)
    assert [row[0] for row in cli("secrets", "list").rows] == ["key", "token"]
    assert "hunter" not in cli("secrets", "list").out + cli("log", "--json").out + cli("log").out


def test_an_empty_value_is_refused(cli: CommandLine, store: Store) -> None:
    assert cli("secrets", "set", "telegram", "token", stdin="\n").status == 1
    assert store.secrets.names() == []


def test_a_removed_secret_can_be_restored_unless_removed_forever(cli: CommandLine) -> None:
    seal(cli)
    assert cli("secrets", "rm", "telegram", "token").status == 0
    assert cli("secrets", "get", "telegram", "token", "--reveal").status == 1
    cli("undo")
    assert reveal(cli) == "hunter2\n"
    assert cli("secrets", "rm", "telegram", "token", "--forever").status == 0
    assert cli("undo").status == 1
    assert cli("secrets", "rm", "telegram", "token").status == 1


def test_rotating_and_verifying(cli: CommandLine, store: Store) -> None:
    seal(cli)
    ran = cli("secrets", "rotate")
    assert (ran.status, "1 sealed value" in ran.err) == (0, True)
    assert reveal(cli) == "hunter2\n"
    assert cli("secrets", "verify", "--json").json == {"schema": 1, "problems": []}
    store.connection.execute("update secrets set sealed = zeroblob(200)")
    ran = cli("secrets", "verify")
    assert ran.status == 1
    assert "token" in ran.out
    (problem,) = cli("secrets", "verify", "--json").json["problems"]
    assert problem.keys() == {"where", "reason"}


def test_a_passphrase_protects_and_is_asked_for(cli: CommandLine, store: Store) -> None:
    seal(cli)
    changed = cli("secrets", "passphrase", stdin="correct horse\n")
    assert changed.status == 0
    assert f"can still be opened with the key file {key_file()}. Delete those copies" in changed.err
    assert store.secrets.protection == "passphrase"
    locked = cli("secrets", "get", "telegram", "token", "--reveal")
    assert (locked.status, locked.out) == (1, "")
    assert "--passphrase-stdin" in locked.err
    get = ("secrets", "get", "telegram", "token", "--reveal", "--passphrase-stdin")
    assert cli(*get, stdin="correct horse\n").out == "hunter2\n"
    assert cli(*get, stdin="battery staple\n").status == 1


def test_wrong_passphrases_in_a_row_are_refused_for_longer_and_longer(
    cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seal(cli)
    cli("secrets", "passphrase", stdin="correct horse\n")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)

    def try_passphrase(passphrase: str) -> str:
        return cli("secrets", "verify", "--passphrase-stdin", stdin=f"{passphrase}\n").err

    for _ in range(4):
        assert "Wrong passphrase" in try_passphrase("battery")
    assert "Try again in 1 second." in try_passphrase("correct horse")
    now += 1.1
    assert "Wrong passphrase" in try_passphrase("battery")
    assert "Try again in 2 seconds." in try_passphrase("correct horse")
    now -= 3_600  # a clock that is set back
    assert "Try again in 2 seconds." in try_passphrase("correct horse")
    now += 3_602.1
    assert "Every secret can be opened." in try_passphrase("correct horse")
    assert "Wrong passphrase" in try_passphrase("battery")
    attempts_file().write_text("[]")
    assert "Every secret can be opened." in try_passphrase("correct horse")


def test_the_value_follows_the_passphrase_on_stdin(cli: CommandLine) -> None:
    cli("secrets", "passphrase", stdin="correct horse\n")
    ran = cli("secrets", "set", "telegram", "token", "--passphrase-stdin", stdin="correct horse\nhunter2\n")
    assert ran.status == 0
    get = ("secrets", "get", "telegram", "token", "--reveal", "--passphrase-stdin")
    assert cli(*get, stdin="correct horse\n").out == "hunter2\n"


def test_a_passphrase_is_changed_and_given_up(cli: CommandLine, store: Store) -> None:
    seal(cli)
    assert cli("secrets", "passphrase", "--passphrase-stdin", stdin="first\n").status == 0
    changed = cli("secrets", "passphrase", "--passphrase-stdin", stdin="first\nsecond\n")
    assert changed.status == 0
    assert "can still be opened with the old passphrase" in changed.err
    assert cli("secrets", "key-file", "--passphrase-stdin", stdin="first\n").status == 1
    assert cli("secrets", "key-file", "--passphrase-stdin", stdin="second\n").status == 0
    assert store.secrets.protection == "file"
    assert reveal(cli) == "hunter2\n"


def test_a_keyring_that_does_not_answer_changes_nothing(cli: CommandLine, store: Store) -> None:
    seal(cli)
    assert cli("secrets", "keyring").status == 1
    assert store.secrets.protection == "file"


def test_secrets_without_a_command_is_wrong_usage(cli: CommandLine) -> None:
    assert cli("secrets", "set", "telegram").status == 2
    assert cli("secrets", "nonsense").status == 2
