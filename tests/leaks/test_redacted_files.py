"""Checks that files are whole at any moment, and that those in use or out of reach are left and named."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from planted_secrets import (
    AWS_KEY,
    TRANSCRIPT,
    claude_lines,
    digest_files,
    find_in_files,
    make_old,
    redact,
    scan,
    sync,
    undo,
    write_file,
)

from store.errors import ChangedMeanwhile, Refused
from store.leaks.redaction import text_files
from store.leaks.redaction.replacer import LeakedValue, Replacer, Spellings, ValueRedactor, ValueRestorer
from store.leaks.redaction.text_files import prepare_file
from store.leaks.rule_table import RULES, RULES_BY_ID
from store.leaks.scanner import load_scanner
from store.store import Store


def clear(data: bytes) -> bytes:
    return data.replace(AWS_KEY.encode(), b"[redacted]")


def list_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ── one file ──────────────────────────────────────────────────────────────────────────────────────


def test_a_file_that_changed_before_the_new_one_is_complete_stays(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.jsonl", f'"{AWS_KEY}"\n')
    with prepare_file(path, clear) as prepared:
        path.write_text(f'"{AWS_KEY} changed"\n')
        with pytest.raises(ChangedMeanwhile):
            prepared.replace(clear)
    assert path.read_text() == f'"{AWS_KEY} changed"\n'
    assert list_names(tmp_path) == ["a.jsonl"]


def test_an_equal_size_and_time_do_not_hide_a_change(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.jsonl", f'"{AWS_KEY}" 1\n')
    status = path.stat()
    with prepare_file(path, clear) as prepared:
        path.write_text(f'"{AWS_KEY}" 2\n')
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(ChangedMeanwhile):
            prepared.replace(clear)
    assert path.read_text() == f'"{AWS_KEY}" 2\n'


@contextmanager
def writing_in_the_last_moment(monkeypatch: pytest.MonkeyPatch, path: Path, mode: str, text: str) -> Iterator[None]:
    """Let another program write to the old file right before the new one takes its name."""
    rename = os.rename
    with path.open(mode) as other:

        def write_and_rename(old: str, new: str) -> None:
            if other.closed:
                return rename(old, new)
            with other:
                other.write(text)
            rename(old, new)

        monkeypatch.setattr(text_files.os, "rename", write_and_rename)
        yield
    monkeypatch.undo()


def test_what_was_appended_in_the_last_moment_is_appended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_file(tmp_path / "a.jsonl", f'"{AWS_KEY}"\n')
    with (
        prepare_file(path, clear) as prepared,
        writing_in_the_last_moment(monkeypatch, path, "a", f'"more {AWS_KEY}"\n'),
    ):
        prepared.replace(clear)
    assert path.read_text() == '"[redacted]"\n"more [redacted]"\n'
    assert list_names(tmp_path) == ["a.jsonl"]


def test_a_rewrite_in_the_last_moment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_file(tmp_path / "a.jsonl", f'"{AWS_KEY}"\n')
    with (
        prepare_file(path, clear) as prepared,
        writing_in_the_last_moment(monkeypatch, path, "r+", '"rewritten'),
        pytest.raises(ChangedMeanwhile),
    ):
        prepared.replace(clear)
    assert path.read_text().startswith('"rewritten')
    assert list_names(tmp_path) == ["a.jsonl"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.txt", f"{AWS_KEY}\n" * 20_000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    digest = digest_files(tmp_path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"), prepare_file(path, clear):
            pass
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert digest_files(tmp_path) == digest


def test_owner_rights_and_times_stay(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.txt", AWS_KEY)
    path.chmod(0o640)
    before = path.stat()
    with prepare_file(path, clear) as prepared:
        prepared.replace(clear)
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)
    assert path.read_text() == "[redacted]"


def test_a_line_that_would_be_no_json_any_more_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path / "a.jsonl", '{"a": 1}\n')
    with pytest.raises(Refused), prepare_file(path, lambda data: data.replace(b"}", b"")):
        pass
    with pytest.raises(Refused), prepare_file(path, lambda data: data.replace(b"\n", b"")):
        pass
    assert path.read_text() == '{"a": 1}\n'


# ── files that are left ───────────────────────────────────────────────────────────────────────────


def plant(home: Path, text: str = "") -> Path:
    return write_file(home / TRANSCRIPT, text or claude_lines(f"use {AWS_KEY}", "ok"))


def redact_and_name(store: Store) -> list[str]:
    sync(store)
    report = redact(store, scan(store)["aws-access-key"].fingerprint)
    return [place.problem for place in report.left]


def test_a_file_that_a_process_has_open_is_left(store: Store, home: Path) -> None:
    path = plant(home)
    with path.open() as file:
        other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=file)
        try:
            assert redact_and_name(store) == [f"It is open in process {other.pid}."]
        finally:
            other.communicate(b"\n")
    assert find_in_files([home], AWS_KEY) == [str(path)]


def test_files_are_left_while_their_agent_runs(store: Store, home: Path, tmp_path: Path) -> None:
    path = plant(home)
    program = Path(shutil.copy(shutil.which("sleep") or "", tmp_path / "claude"))
    agent = subprocess.Popen([program, "60"])
    try:
        assert redact_and_name(store) == [f"Claude Code is running (process {agent.pid})."]
    finally:
        agent.kill()
        agent.wait()
    run = store.leaks.redactions.begin_rest(store.leaks.redactions.list_unfinished()[0].id)
    assert [progress.step for progress in run.steps()]
    assert run.report.left == ()
    assert find_in_files([home], AWS_KEY) == []
    assert AWS_KEY not in path.read_text()


def test_a_file_with_a_second_name_is_left(store: Store, home: Path, tmp_path: Path) -> None:
    path = plant(home)
    os.link(path, tmp_path / "second")
    assert redact_and_name(store) == ["It has a second name (a hard link)."]


def test_a_sync_of_a_file_that_is_left_brings_nothing_back(store: Store, home: Path) -> None:
    path = plant(home)
    make_old(path, 5)
    assert redact_and_name(store) == ["It changed less than a minute ago."]
    write_file(path, path.read_text() + claude_lines("use", "ok", "more", "yes").split("\n", 2)[2])
    sync(store)
    assert store.row("select count(*) from sessions where relation = 'superseded'") == (0,)
    assert store.row("select count(*) from entries where instr(text, ?)", AWS_KEY) == (0,)
    assert [session.entries for session in store.sessions.newest()] == [4]


# ── what is in files ──────────────────────────────────────────────────────────────────────────────


def test_lines_that_are_not_json_are_cleared_too(store: Store, home: Path) -> None:
    text = claude_lines(f"use {AWS_KEY}", "ok") + f"not json {AWS_KEY}\n" + "{broken " + AWS_KEY
    path = plant(home, text)
    assert redact_and_name(store) == []
    assert AWS_KEY not in path.read_text()
    assert path.read_text().count("\n") == text.count("\n")
    undo(store, 1)
    assert path.read_text() == text


def test_what_cannot_be_looked_into_is_named(store: Store, home: Path) -> None:
    plant(home)
    (home / ".claude/projects/-p/a.zip").write_bytes(b"PK\x03\x04" + AWS_KEY.encode())
    sync(store)
    fingerprint = scan(store)["aws-access-key"].fingerprint
    named = {Path(item.path).name: item.reason for item in store.leaks.redactions.preview([fingerprint]).not_scanned}
    assert named["a.zip"] == "a zip archive"


def test_a_short_password_is_only_replaced_where_a_rule_finds_it(store: Store, home: Path) -> None:
    url = "postgres://app:wombat7@db.internal.net/shop"
    path = plant(home, claude_lines(f"connect to {url}", "The wombat7 is an animal."))
    sync(store)
    (leak,) = scan(store).values()
    redact(store, leak.fingerprint)
    assert f"postgres://app:[redacted: {leak.rule} #{leak.fingerprint}]@db" in path.read_text()
    assert "The wombat7 is an animal." in path.read_text()
    texts = [text for (text,) in store.rows("select text from entries where seq >= 0 order by seq")]
    assert "wombat7" not in texts[0]
    assert texts[1] == "The wombat7 is an animal."


# ── spellings ─────────────────────────────────────────────────────────────────────────────────────

PRIVATE_KEY = RULES_BY_ID["private-key"].example


@pytest.mark.parametrize(
    "spell",
    [
        lambda text: text,
        lambda text: json.dumps(text),
        lambda text: json.dumps({"inner": json.dumps({"deep": json.dumps(text)})}),
        lambda text: '"' + "".join(f"\\u{ord(character):04X}" for character in text) + '"',
        lambda text: json.dumps(text).replace("/", "\\/"),
        lambda text: text.replace("\n", "\r\n"),
    ],
)
@pytest.mark.parametrize("value", [AWS_KEY, PRIVATE_KEY, 'pa"ss\\wörd/with 17 signs'])
def test_every_spelling_is_replaced_and_restored(spell: object, value: str) -> None:
    assert callable(spell)
    data = f"before {spell(value)} between {spell(value)}x".encode()
    secret = LeakedValue("f" * 16, "rule", value)
    spellings = Spellings()
    redactor = ValueRedactor(Replacer([secret], lambda data: ()), spellings)
    new, _ = redactor.redact(data)
    assert new.count(b"[redacted: rule #ffffffffffffffff]") == 2
    assert value.split("\n")[-1].encode() not in new
    assert ValueRestorer(redactor.spans, [secret], spellings).restore(new)[0] == data


def test_a_line_break_before_other_letters_is_not_part_of_a_value() -> None:
    """`\\npm_…` in JSON is a line break, and no token of npm."""
    token = "npm_1234abcdEFGH5678ijklMNOP"
    secret = LeakedValue("f" * 16, "rule", token)
    redactor = ValueRedactor(Replacer([secret], lambda data: ()), Spellings())
    data = json.dumps("a\n" + token[1:]).encode()
    assert redactor.redact(data)[0] == data


def test_no_rule_takes_a_replacement_for_a_secret() -> None:
    scanner = load_scanner()
    for rule in RULES:
        for match in scanner.scan(rule.example)[:1]:
            replacement = f"[redacted: {rule.id} #0123456789abcdef]"
            replaced = f"{rule.example[: match.start]}{replacement}{rule.example[match.end :]}"
            assert [found.rule for found in scanner.scan(replaced) if found.start >= match.start] == [], rule.id
