"""This module reads exported sessions. A sub-agent inside of another session is a session of its own."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from store.errors import BadValue
from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    NewRecord,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
    part_from_json,
)
from store.model.knowledge import KeptSummary, KeptValues
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, SessionRef
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str, as_time
from store.sources.kit.nested_sessions import NestedSession, NestedSessionReader
from store.sources.kit.transcripts import path_text, sanitize_fields
from store.text.validate import encode, replace_surrogates

if TYPE_CHECKING:
    from store.sources.backscroll.source import BackscrollExport

FORMAT_VERSION = 1
_EXCERPT_ENDING = re.compile(r"~[^~:]{0,8}$")
_BEGINNING = b'{"backscroll_export":'
_NUMBER_FIELDS = frozenset(
    ("forked_at", "tokens_input", "tokens_output", "tokens_cached", "tokens_cache_write", "tokens_total")
)
_IDENTITY_FIELDS = frozenset(("source", "native_id", "parent_id", "relation", "forked_at"))


def begins_like_export(path: Path) -> bool:
    try:
        with jsonl.open_file(path) as file:
            return file.read(len(_BEGINNING)) == _BEGINNING
    except jsonl.PATH_ERRORS:
        return False


def is_excerpt_id(native_id: str) -> bool:
    return _EXCERPT_ENDING.search(native_id) is not None


class BackscrollReader(NestedSessionReader):
    def __init__(self, root: Path, source: BackscrollExport) -> None:
        super().__init__(root, source.files)
        self._source = source

    def has_my_beginning(self, path: Path) -> bool:
        return begins_like_export(path)

    def find_fault(self, value: Mapping[str, Json]) -> str:
        if not self._source.is_mine(value):
            return "It is not an exported session."
        version = value.get("backscroll_export")
        return "" if version == FORMAT_VERSION else f"Its format has version {version}. Update Backscroll to read it."

    def list_sessions(self, path: Path, value: Mapping[str, Json]) -> Iterator[NestedSession]:
        """Yield the sessions of a file. Those of an excerpt are others than those that it is taken from."""
        name = replace_surrogates(as_str(as_dict(value.get("session")).get("id")) or path.stem)
        digest = as_str(as_dict(value.get("receipt")).get("document_sha256"))[:8]
        ending = "" if value.get("is_excerpt") is False else f"~{digest}"
        return _with_sub_agents(NestedSession(value, path, name + ending), ending)

    def find_times(self, session: NestedSession) -> tuple[str, str]:
        return _find_times(session)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        session = self.load_session(ref)
        if session is None:
            return
        problems: list[Problem] = []
        entries = list(_read_entries(session, problems))
        header = next((entry for entry in entries if entry.kind == "header"), None)
        kept = _read_kept(as_dict(session.value.get("kept")))
        yield Batch(header=header, fields=_read_fields(session), archived=kept.archived, kept=kept)
        yield from sqlite.build_batches(([entry] for entry in entries if entry is not header), problems)


def _with_sub_agents(session: NestedSession, ending: str) -> Iterator[NestedSession]:
    """Yield a session and those inside of it. `ending` is added to their ids."""
    yield session
    for value in session.objects("sub_agents"):
        if name := as_str(as_dict(value.get("session")).get("id")):
            native_id = replace_surrogates(name) + ending
            yield from _with_sub_agents(NestedSession(value, session.path, native_id, session), ending)


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def _find_times(session: NestedSession) -> tuple[str, str]:
    return session.times("entries", "created_at")


def _read_fields(session: NestedSession) -> SessionFields:
    described = as_dict(session.value.get("session"))
    fields: dict[str, Any] = {}
    for name in SessionFields.__annotations__:
        value = described.get(name)
        if name in _IDENTITY_FIELDS or name in ("created_at", "updated_at"):
            continue
        if name == "cost":
            fields |= jsonl.cost_fields(value)
        elif name in _NUMBER_FIELDS:
            fields |= {name: value} if _is_count(value) else {}
        elif value and isinstance(value, str):
            fields[name] = value
    started, ended = _find_times(session)
    fields |= sqlite.time_fields(as_time(described.get("created_at")) or started, ended)
    if session.parent is not None:
        fields |= {"parent_id": session.parent.native_id, "relation": "delegate"}
        if described.get("relation") == "sidechain":
            fields["relation"] = "sidechain"
        if _is_count(described.get("forked_at")):
            fields["forked_at"] = described["forked_at"]
    return sanitize_fields(cast("SessionFields", fields))


def _is_count(value: Json) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _read_kept(kept: Mapping[str, Json]) -> KeptValues:
    notes = [as_dict(note) for note in as_list(kept.get("notes"))]
    versions = [as_dict(version) for version in as_list(kept.get("summaries"))]
    return KeptValues(
        title=replace_surrogates(as_str(kept.get("title"))),
        pinned=bool(kept.get("pinned")),
        archived=bool(kept.get("archived")),
        tags=tuple(replace_surrogates(tag) for tag in as_list(kept.get("tags")) if isinstance(tag, str) and tag),
        notes=tuple(
            (
                note["entry_seq"] if type(note.get("entry_seq")) is int else None,
                replace_surrogates(as_str(note.get("text"))),
                as_time(note.get("created_at")),
            )
            for note in notes
            if as_str(note.get("text"))
        ),
        summaries=tuple(
            KeptSummary(
                replace_surrogates(as_str(version.get("text"))),
                version["up_to_turn"] if _is_count(version.get("up_to_turn")) else None,
                "source" if version.get("origin") == "source" else "person",
                version.get("current") is True,
                as_time(version.get("created_at")),
            )
            for version in versions
            if as_str(version.get("text"))
        ),
    )


# ── entries ───────────────────────────────────────────────────────────────────────────────────────


def _read_entries(session: NestedSession, problems: list[Problem]) -> Iterator[NewEntry]:
    records: list[NewRecord] = []
    created_at = _find_times(session)[0]
    has_header = False
    for number, value in enumerate(as_list(session.value.get("entries"))):
        entry = as_dict(value)
        created_at = as_time(entry.get("created_at")) or created_at
        try:
            record = _read_record(entry.get("record"), records)
            # The next reading recognizes an entry by its record. One without a record is its own.
            record = record or NewRecord(encode(value), path_text(session.path), str(number))
        except BadValue as reason:
            problems.append(Problem(f"{session.path}:{number}", str(reason)))
            continue
        kind = as_str(entry.get("kind")) or "unknown"
        is_header = kind == "header" and entry.get("seq") == -1 and not has_header
        has_header |= is_header
        yield NewEntry(
            kind=kind if is_header or kind != "header" else "unknown",
            role=as_str(entry.get("role")),
            parts=tuple(map(_read_part, as_list(entry.get("parts")))),
            author=replace_surrogates(as_str(entry.get("author"))),
            model=replace_surrogates(as_str(entry.get("model"))),
            text=replace_surrogates(as_str(entry.get("text"))),
            is_prompt=entry.get("is_prompt") is True,
            message_key=replace_surrogates(as_str(entry.get("message_key"))),
            record=record,
            tokens=_read_tokens(entry.get("tokens")),
            created_at=created_at,
        )


def _read_record(value: Json, records: list[NewRecord]) -> NewRecord | None:
    """Return a record, or the earlier one that the value is the number of. Return None if there is none."""
    if type(value) is int:
        return records[value] if 0 <= value < len(records) else None
    fields = as_dict(value)
    if isinstance(text := fields.get("text"), str):
        data = text.encode("utf-8", "surrogatepass")
    else:
        try:
            data = b64decode(as_str(fields.get("base64")), validate=True)
        except (NotBase64, ValueError):
            raise BadValue("The record is not base64.") from None
    if not fields:
        return None
    place, position = (replace_surrogates(as_str(fields.get(name))) for name in ("place", "position"))
    records.append(NewRecord(data, place, position))
    return records[-1]


def _read_tokens(value: Json) -> Tokens | None:
    counts = as_list(value)
    return Tokens(*counts) if len(counts) == len(Tokens._fields) and all(map(_is_count, counts)) else None


def _read_part(value: Json) -> Part:
    """Return a part. What is no part becomes an opaque one, because anyone may have written the file."""
    try:
        part = part_from_json(as_dict(value))
    except TypeError:
        return Opaque("part", value)
    match part:
        case (
            Text(str())
            | Thinking(str(), str())
            | ToolCall(str(), str())
            | ToolResult(str(), _, bool(), str(), None | int() | float())
            | Attachment(str(), str(), None | int(), str())
            | Opaque(str())
        ):
            return part
    return Opaque("part", value)


# ── parts of a session, as members of a team send them ────────────────────────────────────────────


def parse_fields(described: Json) -> SessionFields:
    """Return the fields of a session from what `session` holds in a file."""
    return _read_fields(NestedSession({"session": as_dict(described)}, Path(), ""))


def parse_entries(values: Json, place: str) -> list[NewEntry]:
    """Return entries from what `entries` holds in a file. What is no entry is left out."""
    return list(_read_entries(NestedSession({"entries": as_list(values)}, Path(place), ""), []))
