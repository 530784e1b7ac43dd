"""This module reads a session as a document, turn by turn, and counts what it read and what it left out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from store.conversations.session_changes import SUB_AGENT_RELATIONS
from store.conversations.timeline import Timelines
from store.errors import NotFound, StoreError
from store.export.document import (
    CallBlock,
    Document,
    DocumentTurn,
    FileMention,
    Item,
    Notice,
    Picture,
    SpokenText,
    SubAgentBlock,
    ThoughtText,
    format_time,
)
from store.export.options import ExportOptions
from store.export.titles import check_title
from store.formats.exit_code import find_exit_code
from store.formats.file_changes import ChangedLine, FileChange, find_changes, find_command
from store.leaks.gate import LeakGate
from store.model.entry import (
    Attachment,
    Entry,
    Json,
    Opaque,
    PairedCall,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    readable_text,
)
from store.model.knowledge import Note
from store.model.session import UNKNOWN_USER, Session, entry_id
from store.model.timeline import is_bookkeeping, is_error_notice, mentions_failure
from store.rebuild.attachments import find_payloads, match_payload, split_output
from store.rebuild.native import decode_or_none
from store.rebuild.unit import Payload
from store.sources import source_label
from store.sources.backscroll.origin import find_origin

if TYPE_CHECKING:
    from store.store import Store

PAGE_TURNS = 20
"""Is how many turns are read at a time."""

MAX_SUBJECT_LENGTH = 300

_Calls = Mapping[tuple[str | None, str], PairedCall]

_TURNS = "select n, first_seq, last_seq, started_at from turns where session = ? order by n"
_MAIN_ARGUMENTS = ("file_path", "filePath", "path", "pattern", "query", "url", "description", "prompt")
_PICTURE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_ROLE_LABELS = {"user": "User", "assistant": "Assistant", "system": "System", "tool": "Tool"}

TOOLS_LEFT_OUT = "tool calls were not asked for"
THINKING_LEFT_OUT = "thinking was not asked for"
TURNS_LEFT_OUT = "other turns were asked for"
EVENT_LEFT_OUT = "agents record it for themselves"
PICTURE_LEFT_OUT = "its content is not in the records"


@dataclass(slots=True)
class SourceDigest:
    "Sums up the records that a document was made from."

    session_id: str
    first_seq: int | None = None
    last_seq: int | None = None
    records: int = 0
    size: int = 0
    _hash: hashlib._Hash = field(default_factory=hashlib.sha256)
    _seen: set[int] = field(default_factory=set)

    def is_new(self, record: int) -> bool:
        if record in self._seen:
            return False
        self._seen.add(record)
        return True

    def add(self, data: bytes) -> None:
        self.records += 1
        self.size += len(data)
        self._hash.update(data + b"\n")

    @property
    def sha256(self) -> str:
        """Is the SHA-256 of the records in the order of the chain, each followed by a line feed."""
        return self._hash.hexdigest()


class DocumentReader:
    """Reads one session and its sub-agents for one export."""

    def __init__(
        self,
        store: Store,
        options: ExportOptions,
        *,
        gate: LeakGate | None = None,
        last_seqs: Mapping[str, int] | None = None,
    ) -> None:
        self.store = store
        self.options = options
        self.gate = gate
        self.mask: Callable[[str], str] = gate.check if gate else str
        "Is applied to every text. It is `str` if nothing is checked."
        self.counts: Counter[str] = Counter()
        self.left_out: Counter[tuple[str, str]] = Counter()
        "Counts what is not in the document, by what it is and why."
        self.sources: dict[str, SourceDigest] = {}
        self._last_seqs = last_seqs
        "Limits each session to the entries that an earlier export had. Sessions that it did not have are left out."
        self._timelines = Timelines(store)

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def read(self, session: Session) -> Document:
        number = len(self.sources)
        self.sources.setdefault(session.id, SourceDigest(session.id))
        self.enter_session(session)
        mask, notes = self.mask, self.store.notes.notes(session)
        summary = self.store.summaries.current(session)
        origin = find_origin(session)
        agent = source_label(origin.source)
        details = (
            ("Session", session.id),
            ("Agent", agent),
            ("Model", session.model),
            ("Folder", session.cwd),
            ("User", session.user),
            ("Started", format_time(session.created_at)),
        )
        return Document(
            origin,
            number,
            check_title(self.store, session, self.gate),
            agent,
            tuple((label, mask(value)) for label, value in details if value),
            tuple(map(mask, self.store.notes.tags(session))),
            mask(summary.text) if summary else "",
            tuple(mask(note.signed_text) for note in notes if note.entry is None),
            self.left_out,
            self._iter_document_turns(session, [note for note in notes if note.entry is not None]),
        )

    def _iter_document_turns(self, session: Session, notes: Sequence[Note]) -> Iterator[DocumentTurn]:
        children = self._place_sub_agents(session)
        for turn in self.iter_turns(session):
            own_notes = [note for note in notes if note.entry_seq in {entry.seq for entry in turn.entries}]
            items = tuple(self._iter_items(session, turn, own_notes, children.get(turn.n, ())))
            if items:
                yield DocumentTurn(turn.n, turn.started_at, items, turn)

    def iter_sub_agents(self, session: Session) -> Iterator[Session]:
        """Yield the sub-agents in the turns that are exported."""
        for n, children in self._place_sub_agents(session).items():
            yield from (child for child in children if self.options.has_turn(n))

    def _place_sub_agents(self, session: Session) -> dict[int, list[Session]]:
        """Return the sub-agents by the turn that started them: by entry, or by time if the entry is unknown."""
        if self.options.entry is not None:
            return {}
        turns = self.store.rows(_TURNS, session.key)
        placed: dict[int, list[Session]] = {}
        for child in self.store.sessions.children(session.id):
            if child.relation not in SUB_AGENT_RELATIONS or child.deleted or child.id in self.sources:
                continue
            if self._last_seqs is not None and child.id not in self._last_seqs:
                continue
            if child.forked_at is None:
                started = [n for n, _, _, at in turns if at <= child.created_at]
            else:
                started = [n for n, first_seq, *_ in turns if first_seq <= child.forked_at]
            placed.setdefault(started[-1] if started else 0, []).append(child)
        return placed

    # ── turns ─────────────────────────────────────────────────────────────────────────────────────

    def iter_turns(self, session: Session) -> Iterator[Turn]:
        """Yield the chosen turns, with the entries that may be exported, and count their records."""
        numbers = [0, *(n for n, *_ in self.store.rows(_TURNS, session.key))]
        chosen = [n for n in numbers if self.options.has_turn(n)]
        if not chosen or (self.options.turns and chosen == [0] and self.options.turns[0] > 0):
            raise NotFound(f"No such turns. The last turn is {numbers[-1]}.")
        self.left_out["turn", TURNS_LEFT_OUT] += len(numbers) - len(chosen) if self.options.turns else 0
        for start in range(0, len(chosen), PAGE_TURNS):
            for turn in self._timelines.load_turns(session.key, chosen[start : start + PAGE_TURNS]):
                limited = self._limit_turn(session, turn)
                if limited.entries:
                    self._count_records(session, limited.entries)
                    self.counts["turn"] += limited.n > 0
                    self.enter_session(session, limited.n)
                    yield limited

    def enter_session(self, session: Session, turn: int | None = None) -> None:
        """Tell the gate where the next texts are from."""
        if self.gate is not None:
            sub_agent = f"{session.id}, " if len(self.sources) > 1 else ""
            self.gate.place = sub_agent + ("heading" if turn is None else f"turn {turn}")

    def _limit_turn(self, session: Session, turn: Turn) -> Turn:
        last_seq = self._last_seqs.get(session.id) if self._last_seqs else None
        if last_seq is None and self.options.entry is None:
            return turn
        only, end = self.options.entry, last_seq
        entries = tuple(
            entry for entry in turn.entries if (end is None or entry.seq <= end) and (only is None or entry.seq == only)
        )
        calls = tuple(
            call._replace(status="pending", result=None, result_entry=None, duration_ms=None)
            if call.entry and end is not None and _seq(call.result_entry) > end
            else call
            for call in turn.tool_calls
        )
        return replace(turn, entries=entries, tool_calls=calls)

    def _count_records(self, session: Session, entries: Sequence[Entry]) -> None:
        source = self.sources.setdefault(session.id, SourceDigest(session.id))
        source.first_seq = entries[0].seq if source.first_seq is None else source.first_seq
        source.last_seq = entries[-1].seq
        for entry in entries:
            if entry.record is not None and source.is_new(entry.record):
                source.add(self.store.records.get(entry.record))

    # ── items ─────────────────────────────────────────────────────────────────────────────────────

    def _iter_items(
        self, session: Session, turn: Turn, notes: Sequence[Note], children: Sequence[Session]
    ) -> Iterator[Item]:
        calls: _Calls = {(call.entry, call.call_id): call for call in turn.tool_calls if call.entry}
        paired = {(call.result_entry, call.call_id) for call in calls.values()}
        waiting = list(children)
        for entry in turn.entries:
            yield from self._iter_entry_items(session, turn, entry, calls, paired)
            for note in notes:
                if note.entry_seq == entry.seq:
                    yield Notice(entry, "Note", self.mask(note.signed_text))
            started = [child for child in waiting if child.forked_at is not None and child.forked_at <= entry.seq]
            waiting = [child for child in waiting if child not in started]
            yield from self._iter_sub_agent_blocks(started)
        yield from self._iter_sub_agent_blocks(waiting)

    def _iter_sub_agent_blocks(self, children: Sequence[Session]) -> Iterator[Item]:
        for child in children:
            if not self.options.tools:
                self.left_out["sub-agent", TOOLS_LEFT_OUT] += 1
            elif child.id not in self.sources:  # foreign stores may contain circles
                self.counts["sub-agent"] += 1
                yield SubAgentBlock(self.for_sub_agent().read(child))

    def for_sub_agent(self) -> DocumentReader:
        """Return a reader for a sub-agent, which reads all its turns and counts together with this one."""
        options = replace(self.options, turns=None)
        reader = DocumentReader(self.store, options, gate=self.gate, last_seqs=self._last_seqs)
        reader.counts, reader.left_out, reader.sources = self.counts, self.left_out, self.sources
        return reader

    def _iter_entry_items(
        self,
        session: Session,
        turn: Turn,
        entry: Entry,
        calls: _Calls,
        paired: set[tuple[str | None, str]],
    ) -> Iterator[Item]:
        mask = self.mask
        if entry.kind == "header":
            if entry.text.strip():
                yield Notice(entry, "System prompt", mask(entry.text))
        elif entry.kind == "event" or is_error_notice(entry.role, entry.model, entry.text):
            yield from self._iter_event(entry)
        elif entry.kind == "compaction":
            yield Notice(entry, "The conversation was compacted", mask(entry.text))
        else:
            is_prompt = self.is_prompt(turn, entry)
            author = "" if entry.author == UNKNOWN_USER else mask(entry.author)
            speaker = author or _ROLE_LABELS.get(entry.role, entry.role)
            if is_prompt and entry.text.strip():
                self.counts["text"] += 1
                yield SpokenText(entry, speaker, mask(entry.text), is_prompt=True)
            for part in entry.parts:
                if not (is_prompt and isinstance(part, Text)):
                    yield from self._iter_part(session, entry, part, speaker, calls, paired)

    def is_prompt(self, turn: Turn, entry: Entry) -> bool:
        """Return whether an entry begins its turn. If only one entry is exported, the first one may be another."""
        is_first = turn.n > 0 and entry.seq == turn.entries[0].seq
        return is_first and (self.options.entry is None or (entry.role == "user" and entry.text == turn.prompt))

    def _iter_event(self, entry: Entry) -> Iterator[Item]:
        if is_bookkeeping(entry.text):
            self.left_out["event", EVENT_LEFT_OUT] += 1
        else:
            yield Notice(entry, "Event", self.mask(entry.text), is_failure=mentions_failure(entry.text))

    def _iter_part(
        self,
        session: Session,
        entry: Entry,
        part: Part,
        speaker: str,
        calls: _Calls,
        paired: set[tuple[str | None, str]],
    ) -> Iterator[Item]:
        ref = entry_id(session.id, entry.seq)
        match part:
            case Text(text):
                if text.strip():
                    self.counts["text"] += 1
                    yield SpokenText(entry, speaker, self.mask(text))
            case Thinking(text):
                yield from self._iter_thought(entry, text)
            case ToolCall(call_id, name, arguments):
                call = calls.get((ref, call_id)) or _pending_call(session, entry, part)
                yield from self._iter_call(entry, call, name, arguments)
            case ToolResult(call_id) if (ref, call_id) not in paired:
                name = part.name or call_id
                orphan = _pending_call(session, entry, ToolCall(call_id, name, None))
                yield from self._iter_call(entry, orphan._replace(status="orphan", result=part.output), name, None)
            case Attachment():
                yield self._read_attachment(entry, part)
            case Opaque(kind, value):
                yield Notice(entry, self.mask(kind) or "Unknown", self.mask(readable_text(value)))

    def _iter_thought(self, entry: Entry, text: str) -> Iterator[Item]:
        if not text.strip():
            return
        if self.options.thinking:
            self.counts["thinking"] += 1
            yield ThoughtText(entry, self.mask(text))
        else:
            self.left_out["thinking", THINKING_LEFT_OUT] += 1

    # ── calls, pictures ───────────────────────────────────────────────────────────────────────────

    def _iter_call(self, entry: Entry, call: PairedCall, name: str, arguments: Json) -> Iterator[Item]:
        if not self.options.tools:
            self.left_out["tool call", TOOLS_LEFT_OUT] += 1
            return
        self.counts["tool call"] += 1
        changes = find_changes(name, arguments, call.recorded_diff)
        exit_code = (call.exit_code or find_exit_code(call.result)) if call.status == "error" else None
        shown = self.mask_json(arguments)
        yield CallBlock(
            entry,
            call,
            self.mask(name),
            _shorten(_describe_call(name, shown)),
            shown,
            tuple(self._mask_change(change) for change in changes),
            tuple(self._read_output(entry, call)),
            exit_code,
        )

    def _read_output(self, entry: Entry, call: PairedCall) -> Iterator[str | Picture]:
        output = call.result
        if not _has_picture(output):
            yield self.mask(readable_text(output))
            return
        result_entry = entry
        if call.result_entry is not None:
            result_entry = self.store.chains.entry(entry.session, _seq(call.result_entry))
        for piece in split_output(output, self._read_payloads(result_entry)):
            if isinstance(piece, str):
                yield self.mask(piece)
            elif picture := self._to_picture(entry, piece):
                yield picture

    def _read_attachment(self, entry: Entry, attachment: Attachment) -> Item:
        payload = match_payload(attachment, self._read_payloads(entry))
        if payload is not None and (picture := self._to_picture(entry, payload)):
            return picture
        if payload is not None and payload.text is not None:
            return Notice(entry, self.mask(payload.name), self.mask(payload.text))
        self.left_out["attachment", PICTURE_LEFT_OUT] += 1
        name = attachment.uri or attachment.name or attachment.media_type
        return FileMention(entry, self.mask(name), attachment.media_type)

    def _read_payloads(self, entry: Entry) -> tuple[Payload, ...]:
        try:
            record = None if entry.record is None else decode_or_none(self.store.records.get(entry.record))
        except StoreError:
            record = None
        return tuple(find_payloads(record))

    def _to_picture(self, entry: Entry, payload: Payload) -> Picture | None:
        if payload.media_type not in _PICTURE_TYPES or not payload.data:
            return None
        self.counts["picture"] += 1
        return Picture(entry, payload.media_type, payload.data, self.mask(payload.name))

    # ── masking ───────────────────────────────────────────────────────────────────────────────────

    def mask_json(self, value: Json) -> Json:
        """Return a JSON value with every text in it masked, also the names of fields."""
        return self.gate.check_json(value) if self.gate else value

    def _mask_change(self, change: FileChange) -> FileChange:
        if self.mask is str:
            return change
        hunks = tuple(
            replace(hunk, lines=self._mask_lines(hunk.lines), heading=self.mask(hunk.heading)) for hunk in change.hunks
        )
        return replace(change, path=self.mask(change.path), moved_to=self.mask(change.moved_to), hunks=hunks)

    def _mask_lines(self, lines: Sequence[ChangedLine]) -> tuple[ChangedLine, ...]:
        """Mask the lines together, because a private key takes several. If that changes their number, hide all."""
        text = "\n".join(line.text for line in lines)
        masked = self.mask(text)
        if masked == text:
            return tuple(lines)
        texts = masked.split("\n")
        if len(texts) != len(lines):
            return tuple(ChangedLine(" ", line) for line in texts)
        return tuple(ChangedLine(line.sign, new) for line, new in zip(lines, texts, strict=True))


def _describe_call(name: str, arguments: Json) -> str:
    """Return the command of a call, or the argument that describes it best."""
    command = find_command(name, arguments)
    if command is None and isinstance(arguments, Mapping) and arguments:
        key = next((key for key in _MAIN_ARGUMENTS if arguments.get(key)), next(iter(arguments)))
        command = readable_text(arguments[key])
    elif command is None:
        command = readable_text(arguments)
    return command


def _shorten(text: str) -> str:
    """Return the beginning of a masked text on one line. Half of a secret would not be recognized as one."""
    return " ".join(text[:MAX_SUBJECT_LENGTH].split())


def _has_picture(output: Json) -> bool:
    return isinstance(output, list) and any(
        isinstance(block, Mapping) and block.get("type") in ("image", "input_image") for block in output
    )


def _pending_call(session: Session, entry: Entry, part: ToolCall) -> PairedCall:
    """Build a call that the store has not paired, e.g. because two calls of an entry have the same id."""
    ref = entry_id(session.id, entry.seq)
    return PairedCall(
        0,
        session.id,
        entry.turn,
        part.id,
        part.name,
        "pending",
        None,
        ref,
        None,
        part.arguments,
        None,
        entry.created_at,
    )


def _seq(ref: str | None) -> int:
    return int(ref.rpartition("#")[2]) if ref else -1
