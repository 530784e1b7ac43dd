"""This module writes a session completely, as JSON of our own format.

Every entry is there with its parts and its record, and what a person keeps: the title, tags, notes and all versions of
the summary. Secrets never are. The version of the format is raised when a reader of today could not understand it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from store.export.raw import mask_record
from store.model.entry import Entry, Json, Part, Thinking, ToolCall, ToolResult, Turn, part_to_json
from store.model.session import Session, SessionFields
from store.sources.backscroll.origin import find_origin
from store.text.validate import serialize

if TYPE_CHECKING:
    from store.export.reader import DocumentReader

FORMAT_VERSION = 1

_HAS_TOKENS = "select 1 from entries where session = ? and tokens is not null limit 1"

_SELECT_PLACE = """
    select coalesce(places.name, records.place), records.position
    from records left join places on places.key = records.place_key where records.key = ?
"""


def write_session_json(reader: DocumentReader, session: Session) -> Iterator[str]:
    """Yield the file up to the value of `receipt`, which `end_session_json` writes."""
    start = f'{{"backscroll_export":{FORMAT_VERSION},"is_excerpt":{_dump(reader.options.is_excerpt)},'
    members = _write_session(reader, session)
    yield start + next(members)
    yield from members
    yield ',"receipt":'


def end_session_json(receipt: str) -> str:
    return f"{receipt}}}\n"


def _dump(value: Json) -> str:
    return serialize(value).decode()


def _write_session(reader: DocumentReader, session: Session) -> Iterator[str]:
    """Yield the members of the object that describes a session."""
    described = reader.mask_json(_describe_session(reader, session))
    reader.enter_session(session)
    kept = _read_kept(reader, session)
    yield f'"session":{_dump(described)},\n"kept":{_dump(reader.mask_json(kept))},\n"entries":[\n'
    separator, records = "", dict[int, int]()
    for turn in reader.iter_turns(session):
        for entry in turn.entries:
            yield separator + _dump(_describe_entry(reader, turn, entry, records))
            separator = ",\n"
    yield '\n],\n"sub_agents":['
    separator = ""
    for child in reader.iter_sub_agents(session) if reader.options.tools else ():
        if child.id not in reader.sources:
            reader.counts["sub-agent"] += 1
            yield f"{separator}{{"
            yield from _write_session(reader.for_sub_agent(), child)
            yield "}"
            separator = ","
    yield "]"


def _describe_session(reader: DocumentReader, session: Session) -> dict[str, Any]:
    """Return the fields of a session, without those that are computed from its entries."""
    session = find_origin(session)
    has_tokens = reader.store.row(_HAS_TOKENS, session.key) is not None
    computed = {"updated_at"} | {name for name in SessionFields.__annotations__ if has_tokens and "tokens" in name}
    fields = {name: getattr(session, name) for name in SessionFields.__annotations__ if name not in computed}
    return {"id": session.id} | {name: value for name, value in fields.items() if value not in (None, "")}


def _read_kept(reader: DocumentReader, session: Session) -> dict[str, Any]:
    store = reader.store
    return {
        "title": session.own_title,
        "pinned": session.pinned,
        "archived": session.archived,
        "tags": store.notes.tags(session),
        "notes": [
            {"entry_seq": note.entry_seq, "text": note.text, "created_at": note.created_at}
            for note in store.notes.notes(session)
        ],
        "summaries": [
            {
                "text": version.text,
                "up_to_turn": version.up_to_turn,
                "origin": version.origin,
                "current": version.current,
                "created_at": version.created_at,
            }
            for version in sorted(store.summaries.history(session), key=lambda version: version.key)
        ],
    }


def _describe_entry(reader: DocumentReader, turn: Turn, entry: Entry, records: dict[int, int]) -> dict[str, Any]:
    parts = [part for part in entry.parts if _is_wanted(reader, part)]
    reader.counts["entry"] += 1
    value: dict[str, Any] = {
        "seq": entry.seq,
        "kind": entry.kind,
        "role": entry.role,
        "is_prompt": reader.is_prompt(turn, entry),
        "author": reader.mask(entry.author),
        "model": entry.model,
        "message_key": entry.message_key,
        "text": reader.mask(entry.text),
        "parts": reader.mask_json([part_to_json(part) for part in parts]),
        "inherited": entry.inherited,
        "tokens": entry.tokens,
        "created_at": entry.created_at,
    }
    if entry.record is not None and reader.options.tools and reader.options.thinking:
        is_first = entry.record not in records
        number = records.setdefault(entry.record, len(records))
        value["record"] = _describe_record(reader, entry.record) if is_first else number
    return value


def describe_session(reader: DocumentReader, session: Session) -> dict[str, Any]:
    """Return the fields of a session, masked if the reader masks."""
    reader.enter_session(session)
    return dict(reader.mask_json(_describe_session(reader, session)))


def iter_described_entries(reader: DocumentReader, session: Session, after: int) -> Iterator[dict[str, Any]]:
    """Yield the entries of a session that follow a seq, as a file has them. Each has its record."""
    for turn in reader.iter_turns(session):
        for entry in turn.entries:
            if entry.seq > after:
                yield _describe_entry(reader, turn, entry, {})


def _is_wanted(reader: DocumentReader, part: Part) -> bool:
    options = reader.options
    if isinstance(part, ToolCall | ToolResult):
        reader.counts["tool call"] += options.tools and isinstance(part, ToolCall)
        reader.left_out["tool call or result", "tool calls were not asked for"] += not options.tools
        return options.tools
    if isinstance(part, Thinking):
        reader.left_out["thinking", "thinking was not asked for"] += not options.thinking
        return options.thinking
    return True


def _describe_record(reader: DocumentReader, key: int) -> dict[str, Any]:
    """Return a record as text, or as base64 if it is not UTF-8."""
    data = mask_record(reader, reader.store.records.get(key))
    place, position = reader.store.row(_SELECT_PLACE, key)
    where = {"place": reader.mask(place or ""), "position": position}
    try:
        return where | {"text": data.decode()}
    except UnicodeDecodeError:
        return where | {"base64": b64encode(data).decode()}
