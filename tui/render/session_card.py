"""This module renders the card of a session: a line at the head of its conversation, and all its fields as a list."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.model.session import Session
from store.model.session_card import RelatedSession, SessionCard
from store.model.status import find_status
from store.resume.check_results import SourceState
from store.sources import source_label
from store.text.sanitize import cell_width, one_line
from store.text.tags import format_tags
from tui.render.styles import (
    FAINT,
    MUTED,
    StyledLine,
    build_content,
    format_age,
    format_count,
    parse_time,
    plain_text,
)
from tui.render.word_wrap import wrap_text

LABEL_CELLS = 15
MAX_SHOWN_CHARACTERS = 20_000
"""Limits the characters of a value that are shown. Copying takes all of it."""

MAX_CARD_CHARACTERS = 24_000
MIN_SHOWN_CHARACTERS = 400
"""Limit the characters of all values together. Of each value after that, only the beginning is shown."""

MAX_NOTE_CELLS = 200

_STATE_NOTES: dict[SourceState, str] = {
    "read": "read completely",
    "changed": "changed since it was read",
    "gone": "gone: its agent no longer has it",
    "unknown": "cannot be checked",
}
_RELATION_NAMES = {"fork": "fork", "delegate": "sub-agent", "sidechain": "sub-agent", "superseded": "older version"}


class CardField(NamedTuple):
    """Holds a value as it is stored, its label, and a note about it."""

    label: str
    value: str
    note: str = ""


# ── the head of a conversation ────────────────────────────────────────────────────────────────────


def render_circumstances(session: Session, width: int) -> Content:
    """Render who spoke where: `ada · telegram 648079060 · openai · sandbox (docker)`. Unknown parts are left out."""
    relation = _RELATION_NAMES.get(session.relation or "", "child")
    parts = [
        session.user,
        " ".join(filter(None, [session.channel, session.channel_id])),
        session.provider,
        _format_environment(session),
        f"{relation} of {session.parent_id}" if session.parent_id else "",
    ]
    text = " · ".join(one_line(part, 60) for part in parts if part)
    return build_content([(one_line(text, width), MUTED)])


def _format_environment(session: Session) -> str:
    """Return the name of the environment with its type in brackets, or the type alone."""
    name, kind = session.environment_name, session.environment_type
    return f"{name} ({kind})" if name and kind else name or kind


# ── all fields ────────────────────────────────────────────────────────────────────────────────────


def list_card_fields(card: SessionCard, state: SourceState | None, now: datetime) -> list[CardField]:
    """Return the fields that have a value. The state is None while the agent's store is still being compared."""
    fields = [
        *_list_identity(card),
        *_list_relations(card),
        *_list_source(card, state),
        *_list_times(card.session, now),
        *_list_amounts(card.session),
        *_list_knowledge(card, now),
        CardField("system prompt", card.system_prompt),
    ]
    return [field for field in fields if field.value]


def _list_identity(card: SessionCard) -> Iterator[CardField]:
    session = card.session
    yield CardField("title", session.title)
    yield CardField("id", session.id)
    yield CardField("native id", session.native_id)
    agent = source_label(session.source)
    yield CardField("agent", session.source, agent if agent != session.source else "")
    yield CardField("owner", card.owner)
    yield CardField("shared with", ", ".join("everybody" if name == "*" else name for name in card.shared_with))
    yield CardField("user", session.user)
    yield CardField("channel", session.channel)
    yield CardField("channel id", session.channel_id)
    yield CardField("provider", session.provider)
    yield CardField("model", session.model)
    yield CardField("environment", session.environment_name, session.environment_type)
    if not session.environment_name:
        yield CardField("environment", session.environment_type)
    yield CardField("its path", session.environment_path)
    yield CardField("folder", session.cwd)
    yield CardField("webhook", session.masked_webhook)


def _list_relations(card: SessionCard) -> Iterator[CardField]:
    yield CardField("head", card.head)
    yield CardField("tail", card.tail)
    if card.parent is not None:
        yield CardField("parent", card.parent.id, _describe_related(card.parent))
    for child in card.children:
        yield CardField("child", child.id, _describe_related(child))


def _describe_related(related: RelatedSession) -> str:
    return " · ".join(filter(None, [_RELATION_NAMES.get(related.relation, ""), related.title]))


def _list_source(card: SessionCard, state: SourceState | None) -> Iterator[CardField]:
    state = "gone" if card.session.gone else state
    note = "" if card.session.depth != "text" else "not completely read yet"
    yield CardField("read from", card.source_place, note or (_STATE_NOTES[state] if state else "comparing…"))


def _list_times(session: Session, now: datetime) -> Iterator[CardField]:
    status, process = find_status(session, now), f"process {session.process}" if session.process else ""
    if session.activity == "failed":
        process = "with an error"
    yield CardField("status", status, process or ("for you" if status == "waiting" else ""))
    for label, at in (("created", session.created_at), ("updated", session.updated_at)):
        time = parse_time(at)
        yield CardField(label, at, f"{time:%Y-%m-%d %H:%M} here, {format_age(at, now)}" if time else "")
    expiry = parse_time(session.expires_at)
    days = f"in {format_count(max((expiry - now).days, 0), 'day') or 'less than a day'}" if expiry else ""
    yield CardField("expires", session.expires_at, f"its agent deletes it {days}" if days else "")


def _list_amounts(session: Session) -> Iterator[CardField]:
    counts = (
        format_count(session.turns, "turn"),
        format_count(session.tool_calls, "tool call"),
        f"{session.errors:,} failed" if session.errors else "",
    )
    yield CardField("length", ", ".join(filter(None, counts)))
    tokens = (
        (session.tokens_input, "input"),
        (session.tokens_output, "output"),
        (session.tokens_cache_read, "read from a cache"),
        (session.tokens_cache_write, "written to a cache"),
        (session.tokens_cached if session.tokens_cache_write is None else 0, "cached"),
        (session.tokens_total, "in total"),
    )
    yield CardField("tokens", ", ".join(f"{count:,} {name}" for count, name in tokens if count))
    yield CardField("cost", f"${session.cost:,.4f}" if session.cost else "")


def _list_knowledge(card: SessionCard, now: datetime) -> Iterator[CardField]:
    if card.summary is not None:
        covered = card.summary.up_to_turn
        coverage = f"covers {covered:,} of {format_count(card.session.turns, 'turn')}" if covered else ""
        yield CardField("summary", card.summary.text, coverage)
    yield CardField("tags", format_tags(card.tags))
    for note in card.notes:
        where = f"on {note.entry}, " if note.entry else ""
        yield CardField("note", note.signed_text, where + format_age(note.created_at, now))
    for file in card.published_files:
        yield CardField("published", file.id, f"{file.filename} · {file.path}")
    for name in card.secret_names:
        yield CardField("secret", name)


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


class CardLine(NamedTuple):
    """Holds one line of the card and the index of its field."""

    field: int
    content: Content


def render_card_lines(fields: Sequence[CardField], width: int) -> list[CardLine]:
    """Wrap all fields. A label stands before the first line of its value."""
    room = max(width - LABEL_CELLS, 1)
    lines: list[CardLine] = []
    characters_left = MAX_CARD_CHARACTERS
    for index, field in enumerate(fields):
        label = one_line(field.label, LABEL_CELLS - 1)
        limit = min(max(characters_left, MIN_SHOWN_CHARACTERS), MAX_SHOWN_CHARACTERS)
        characters_left -= min(len(field.value), limit)
        for pieces in _wrap_field(field, room, limit):
            lead = (label + " " * (LABEL_CELLS - cell_width(label)), MUTED)
            lines.append(CardLine(index, build_content([lead, *pieces])))
            label = ""
    return lines


def _wrap_field(field: CardField, room: int, limit: int) -> list[StyledLine]:
    """Wrap the beginning of a value. Its note follows on the same line if there is room."""
    lines: list[StyledLine] = [[(text, "")] for text in wrap_text(field.value[:limit].strip("\n"), room)]
    if (left := len(field.value) - limit) > 0:
        lines.append([(f"… {format_count(left, 'more character')} · copy to get the whole value", FAINT)])
    note = one_line(field.note, MAX_NOTE_CELLS)
    if note and cell_width(plain_text(lines[-1])) + 2 + cell_width(note) <= room:
        lines[-1].append((f"  {note}", FAINT))
    elif note:
        lines += [[(text, FAINT)] for text in wrap_text(note, room)]
    return lines
