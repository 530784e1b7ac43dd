"""These tests check that no export, published file or rebuilt conversation lets a certain leak out by accident."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from command_line import CommandLine
from documents.export_sample import add_export_session

from store.errors import LeaksFound, ScanFailed
from store.export.options import FILE_SUFFIXES, ExportFormat, ExportOptions
from store.export.verification import verify_file
from store.export.writing import export_to_file, export_to_folder, suggest_name
from store.leaks.gate import LeakPolicy
from store.leaks.rule_table import RULES, RULES_BY_ID
from store.leaks.rules import Tier
from store.leaks.scanner import Scanner
from store.model.entry import NewEntry, NewRecord, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from store.text.validate import encode

FORMATS: tuple[ExportFormat, ...] = ("markdown", "html", "json", "atif", "raw")
RULE = next(rule for rule in RULES if rule.is_builtin and rule.tier is Tier.CERTAIN and rule.prefix)
TOKEN = RULE.example
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in TOKEN)


def add_leaky_session(store: Store, place: str = "answer") -> Session:
    """Add a session with a token in one place only."""
    leak = {place: f"The key is {TOKEN} now."}.get
    session = store.sessions.create("leaky", agent_title=leak("title", "A title"))
    edit = {"file_path": "a.py", "old_string": "x", "new_string": f"y\n{leak('diff', '')}\nz"}
    record = NewRecord(b'{"text": "%s"}' % (ESCAPED if place == "record" else "nothing").encode())
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text(leak("prompt", "Hello")),)),
            NewEntry(
                role="assistant",
                parts=(
                    Thinking(leak("thinking", "Hm.")),
                    ToolCall("c1", "Bash", {"command": leak("argument", "ls")}),
                    ToolCall("c2", "Edit", edit),
                    Text(leak("answer", "Done.")),
                ),
                record=record,
            ),
            NewEntry(role="tool", parts=(ToolResult("c1", leak("result", "a.txt")), ToolResult("c2", "ok"))),
        ],
    )
    if place == "note":
        store.notes.add_note(session, leak("note", ""))
    if place == "tag":
        store.notes.tag([session], [TOKEN])
    if place == "summary":
        store.summaries.set(session, leak("summary", ""))
    return store.sessions.get("leaky")


PLACES = ("title", "prompt", "thinking", "argument", "diff", "answer", "result", "note", "tag", "summary")


@pytest.mark.parametrize("export_format", ["markdown", "html", "json", "atif"])
@pytest.mark.parametrize("place", PLACES)
def test_a_leak_in_any_place_is_refused_and_masked(
    store: Store, tmp_path: Path, place: str, export_format: ExportFormat
) -> None:
    session, path = add_leaky_session(store, place), tmp_path / "out" / "x"
    path.parent.mkdir()
    if export_format == "atif" and place in ("note", "tag", "summary"):
        pytest.skip("A trajectory does not have it.")
    with pytest.raises(LeaksFound) as refusal:
        export_to_file(store, session, ExportOptions(export_format), path)
    assert TOKEN not in str(refusal.value) + "".join(refusal.value.leaks)
    assert RULE.id in refusal.value.leaks[0]
    assert list(path.parent.iterdir()) == []

    export_to_file(store, session, ExportOptions(export_format, leaks="redact"), path)
    data = path.read_bytes()
    assert TOKEN.encode() not in data
    assert f"[redacted: {RULE.id} #1]".encode() in data.replace(b"\\[", b"[").replace(b"\\]", b"]").replace(
        b"\\#", b"#"
    )
    assert verify_file(store, path)[2:] == (True, "same")

    export_to_file(store, session, ExportOptions(export_format, leaks="allow"), path, replace=True)
    assert verify_file(store, path)[2:] == (True, "same")


@pytest.mark.parametrize("export_format", ["raw", "json"])
def test_a_leak_behind_escapes_in_a_record_is_found(store: Store, tmp_path: Path, export_format: ExportFormat) -> None:
    session, path = add_leaky_session(store, "record"), tmp_path / "x"
    with pytest.raises(LeaksFound):
        export_to_file(store, session, ExportOptions(export_format), path)
    export_to_file(store, session, ExportOptions(export_format, leaks="redact"), path)
    data = path.read_text()
    assert TOKEN not in data
    assert ESCAPED not in data
    assert ESCAPED.replace("\\", "\\\\") not in data
    assert f"[redacted: {RULE.id} #1]" in data


def test_the_values_of_own_secrets_are_certain_leaks(store: Store, tmp_path: Path) -> None:
    session = add_export_session(store, answer="It is open sesame 42, as always.")
    store.secrets.set(session, "DOOR", "open sesame 42")
    with pytest.raises(LeaksFound) as refusal:
        export_to_file(store, session, ExportOptions("html"), tmp_path / "x.html")
    assert refusal.value.leaks == ["own-secret ••••••••: turn 1"]
    export_to_file(store, session, ExportOptions("html", leaks="redact"), tmp_path / "x.html")
    assert "It is [redacted: own-secret #1], as always." in (tmp_path / "x.html").read_text()


def test_what_is_left_out_is_not_a_leak(store: Store, tmp_path: Path) -> None:
    session = add_leaky_session(store, "result")
    export_to_file(store, session, ExportOptions("html", tools=False), tmp_path / "x.html")
    assert TOKEN not in (tmp_path / "x.html").read_text()


def test_a_folder_is_refused_too(store: Store, tmp_path: Path) -> None:
    sessions = [add_export_session(store), add_leaky_session(store)]
    with pytest.raises(LeaksFound):
        export_to_folder(store, sessions, ExportOptions("html"), tmp_path / "out")
    assert not list((tmp_path / "out").glob("leaky*"))


@pytest.mark.parametrize("export_format", FORMATS)
def test_no_index_and_no_name_of_a_file_has_a_leak_of_a_title(
    store: Store, tmp_path: Path, export_format: ExportFormat
) -> None:
    """Raw records and JSON need not have the title of the session at all."""
    sessions = [add_export_session(store), add_leaky_session(store, "title")]
    with pytest.raises(LeaksFound) as refusal:
        export_to_folder(store, sessions, ExportOptions(export_format), tmp_path / "out")
    assert refusal.value.leaks == [f"{RULE.id} {RULE.prefix}••••••••: the title of leaky"]
    assert not (tmp_path / "out").exists()
    options = ExportOptions(export_format, leaks="redact")
    export_to_folder(store, sessions, options, tmp_path / "out")
    for path in (tmp_path / "out").iterdir():
        assert TOKEN not in path.read_text(), path.name
    (index,) = (tmp_path / "out").glob("index.*")
    assert f"redacted: {RULE.id}" in index.read_text().replace("\\", "")
    for policy in get_args(LeakPolicy):
        name = suggest_name(store, sessions[1], ExportOptions(export_format, leaks=policy))
        assert name.startswith(f"the-key-is-redacted-{RULE.id}-1-now.")


@pytest.mark.parametrize("export_format", ["markdown", "html", "atif"])
def test_a_title_that_ends_within_a_leak_has_none_of_it(
    store: Store, tmp_path: Path, export_format: ExportFormat
) -> None:
    start = "word " * 38
    session = store.sessions.create("cut")
    prompt, answer = Text(f"{start}\n {TOKEN} is the key"), Text("Done.")
    store.chains.append(session.key, [NewEntry(role="user", parts=(prompt,))])
    store.chains.append(session.key, [NewEntry(role="assistant", parts=(answer,))])
    session, path = store.sessions.get("cut"), tmp_path / "x"
    assert TOKEN[:9] in session.title
    assert TOKEN not in session.title
    only_answer = ExportOptions(export_format, entry=1)
    with pytest.raises(LeaksFound):
        export_to_file(store, session, only_answer, path)
    export_to_file(store, session, replace(only_answer, leaks="redact"), path)
    assert TOKEN[:9] not in path.read_text()
    assert verify_file(store, path)[2:] == (True, "same")
    assert TOKEN[4:9].lower() not in suggest_name(store, session, only_answer)


def test_a_receipt_says_what_was_masked_and_what_was_not_looked_for(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = add_leaky_session(store)
    options = ExportOptions("html", leaks="redact")
    leaks = export_to_file(store, session, options, tmp_path / "all.html").receipt["leaks"]
    assert leaks["found"] == [{"rule": RULE.id, "tier": "certain", "number": 1, "count": 1, "masked": True}]
    assert (leaks["policy"], leaks["limits"]) == ("redact", "")
    for package in ("re2", "ahocorasick_rs"):
        monkeypatch.setitem(sys.modules, package, None)  # as if the extra were not installed
    leaks = export_to_file(store, session, options, tmp_path / "few.html").receipt["leaks"]
    assert [leak["rule"] for leak in leaks["found"]] == [RULE.id]
    assert "Install `backscroll[leaks]`" in leaks["limits"]


def test_a_scan_that_fails_refuses_the_export(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session, folder = add_export_session(store), tmp_path / "out"
    folder.mkdir()

    def fail(self: Scanner, text: str, **options: bool) -> object:
        raise ScanFailed("A text could not be scanned.")

    monkeypatch.setattr(Scanner, "scan", fail)
    with pytest.raises(ScanFailed):
        export_to_file(store, session, ExportOptions("html"), folder / "x.html")
    assert list(folder.iterdir()) == []


# ── on the command line ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("export_format", FORMATS)
def test_nothing_is_printed_if_the_export_is_refused(store: Store, export_format: ExportFormat) -> None:
    session = add_leaky_session(store)
    store.append_message(session.id, "user", f"raw too: {TOKEN}")
    ran = CommandLine(store.path)("export", "leaky", "--as", export_format)
    assert (ran.status, ran.out) == (1, "")
    assert f"  {RULE.id} " in ran.err
    assert "--redact" in ran.err
    assert "--allow-leaks" in ran.err
    assert TOKEN not in ran.err


def test_both_ways_on_and_not_both_at_once(store: Store, tmp_path: Path) -> None:
    add_leaky_session(store)
    cli, path = CommandLine(store.path), tmp_path / f"x{FILE_SUFFIXES['markdown']}"
    arguments = ["export", "leaky", "--as", "markdown", "-o", str(path), "--force"]
    assert cli(*arguments, "--redact", "--allow-leaks").status == 2
    assert cli(*arguments, "--redact").status == 0
    assert TOKEN not in path.read_text()
    assert cli(*arguments, "--allow-leaks").status == 0
    assert TOKEN in path.read_text()


def test_rebuild_to_a_file_has_the_same_gate(store: Store, tmp_path: Path) -> None:
    add_leaky_session(store)
    cli, path = CommandLine(store.path), tmp_path / "input.json"
    ran = cli("rebuild", "leaky", "--as", "chat", "-o", str(path))
    assert (ran.status, path.exists()) == (1, False)
    assert "--redact" in ran.err
    assert cli("rebuild", "leaky", "--as", "chat", "-o", str(path), "--redact").status == 0
    assert f"[redacted: {RULE.id} #1]" in json.dumps(json.loads(path.read_text()))
    assert TOKEN not in path.read_text()
    assert cli("rebuild", "leaky", "--as", "chat", "-o", str(path), "--allow-leaks").status == 1  # it exists
    assert TOKEN in cli("rebuild", "leaky", "--as", "chat").out


def test_publish_has_the_same_gate(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "notes.txt").write_text(f"start\n{'x' * 3_000_000}\n{TOKEN}\n")
    (folder / "clean.txt").write_text("nothing here\n")
    store.create_session("s1", cwd=str(folder))
    cli = CommandLine(store.path)
    ran = cli("publish", "s1", str(folder / "notes.txt"))
    assert (ran.status, ran.out) == (1, "")
    assert TOKEN not in ran.err
    assert store.published.list_published() == []
    assert cli("publish", "s1", str(folder / "notes.txt"), "--allow-leaks").status == 0
    assert cli("publish", "s1", str(folder / "clean.txt")).status == 0
    assert len(store.published.list_published()) == 2


def test_the_gate_asks_for_the_passphrase_of_the_secrets(store: Store, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Say tK7wq93ZbLx8Vd to nobody.\n")
    store.create_session("s1", cwd=str(tmp_path))
    store.append_message("s1", "user", "Hello")
    store.set_secret("s1", "word", "tK7wq93ZbLx8Vd")
    store.secrets.use_passphrase("open sesame")
    cli = CommandLine(store.path)
    commands = {
        "publish": ["publish", "s1", str(tmp_path / "notes.txt")],
        "export": ["export", "s1", "--as", "html", "-o", str(tmp_path / "x.html")],
        "rebuild": ["rebuild", "s1", "--as", "chat", "-o", str(tmp_path / "x.json")],
    }
    for command in commands.values():
        assert "Use --passphrase-stdin" in cli(*command).err
    assert [path.name for path in tmp_path.glob("x.*")] == []
    refused = cli(*commands["publish"], "--passphrase-stdin", stdin="open sesame\n")
    assert "own-secret" in refused.err
    assert cli(*commands["publish"], "--allow-leaks").status == 0
    for name in ("export", "rebuild"):
        assert cli(*commands[name], "--passphrase-stdin", stdin="open sesame\n").status == 0
    assert len(list(tmp_path.glob("x.*"))) == 2
    masked = ["export", "s1", "--as", "markdown", "--redact", "-o", str(tmp_path / "masked.md")]
    assert cli(*masked, "--passphrase-stdin", stdin="open sesame\n").status == 0
    assert "Use --passphrase-stdin" in cli("verify", str(tmp_path / "masked.md")).err
    checked = cli("verify", str(tmp_path / "masked.md"), "--passphrase-stdin", stdin="open sesame\n")
    assert "It is a true excerpt" in checked.out


def test_half_of_a_secret_is_not_shown_in_the_line_of_a_call(store: Store, tmp_path: Path) -> None:
    session = store.sessions.create("s1")
    command = f"{'x' * 280} {TOKEN}"
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("Go"),)),
            NewEntry(
                role="assistant", parts=(ToolCall("c1", "Bash", {"command": command}),), record=NewRecord(encode(1))
            ),
        ],
    )
    export_to_file(store, session, ExportOptions("html", leaks="redact"), tmp_path / "x.html")
    assert TOKEN[:12] not in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize("export_format", FORMATS)
def test_a_value_that_only_the_name_of_its_field_gives_away(
    store: Store, tmp_path: Path, export_format: ExportFormat
) -> None:
    value = RULES_BY_ID["aws-secret-access-key"].example.split('"')[1]
    session, arguments = store.sessions.create("named"), {"aws_secret_access_key": value}
    record = NewRecord(encode({"arguments": arguments}))
    entry = NewEntry(role="assistant", parts=(ToolCall("c1", "configure", arguments),), record=record)
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text("Hello"),)), entry])
    with pytest.raises(LeaksFound):
        export_to_file(store, session, ExportOptions(export_format), tmp_path / "x")
    export_to_file(store, session, ExportOptions(export_format, leaks="redact"), tmp_path / "x")
    assert value not in (tmp_path / "x").read_text()


def test_a_program_cannot_publish_a_leak_by_accident(store: Store, tmp_path: Path) -> None:
    session = store.sessions.create("one", cwd=str(tmp_path))
    (tmp_path / "report.txt").write_text(f"The key is {TOKEN}.")
    with pytest.raises(LeaksFound):
        store.publish("one", "report.txt")
    assert store.published.list_published(session) == []
    assert store.publish("one", "report.txt", allow_leaks=True).filename == "report.txt"
