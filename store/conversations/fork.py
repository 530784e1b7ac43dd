"""This module forks a session: it creates a new session that shares the past of another one up to some turn.

A fork is one edit. The new session is created in the trash, and the edit takes it out of the trash. Undo reverses the
edit and moves the session back there, so that entries that were appended to the fork are not lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.parts import decode_parts
from store.errors import BadValue, NotFound, Refused
from store.model.entry import INTERRUPTED_RESULT, NewEntry, Part, Text, ToolResult, part_to_json
from store.model.session import Session
from store.text.sanitize import one_line
from store.text.titles import prompt_title
from store.text.validate import encode, validate_text

if TYPE_CHECKING:
    from store.store import Store


_COPIED_FIELDS = (
    "channel",
    "channel_id",
    "user",
    "provider",
    "model",
    "cwd",
    "environment_name",
    "environment_type",
    "environment_path",
    "system_prompt",
)
_SELECT_TURN_SPAN = """
    select min(seq), max(seq), (select coalesce(max(n), 0) from turns where session = ?1)
    from entries where session = ?1 and turn = ?2
"""
_ENTRIES_WITH_RESULTS = """
    select key, parts, record from entries where session = ?
        and (instr(parts, cast('"tool_result"' as blob)) > 0 or substr(parts, 2, 1) between x'30' and x'39'
            or substr(parts, 2, 1) = x'5b')
"""
_PAIRED_RESULTS = "select result_entry, result_part from tool_calls where session = ? and status in ('ok', 'error')"
_PENDING_CALLS = "select call_id, name from tool_calls where session = ? and status = 'pending' order by key"


class _TurnSpan(NamedTuple):
    """Holds the seqs of the first and the last entry of a turn."""

    first: int
    last: int


def fork_session(
    store: Store, session: Session, turn: int, *, prompt: str | None = None, session_id: str | None = None
) -> Session:
    """Create a session that ends after that turn.

    With a prompt, it ends before the turn, and the prompt is appended.
    """
    with store.transaction():
        session, span = check_fork(store, session, turn, prompt)
        last_seq = span.last if prompt is None else span.first - 1
        title = session.title if prompt is None else prompt_title(prompt)
        return _fork_after(store, session, last_seq, title, _new_prompt(store, session, span, prompt), session_id)


def fork_before_compaction(
    store: Store, session: Session, seq: int, *, summary: str | None = None, session_id: str | None = None
) -> Session:
    """Create a session that ends before a compaction, so that nothing is left out.

    With a summary, it ends with that one in place of the agent's.
    """
    with store.transaction():
        session = _get_current(store, session)
        if store.chains.entry(session.key, seq).kind != "compaction":
            raise NotFound(f"Entry {seq} is not a compaction.")
        if summary is not None and not validate_text(summary, "summary").strip():
            raise BadValue("The summary is empty.")
        ending = () if summary is None else (NewEntry(kind="compaction", role="system", parts=(Text(summary),)),)
        return _fork_after(store, session, seq - 1, session.title, ending, session_id)


def _fork_after(
    store: Store, session: Session, last_seq: int, title: str, ending: Iterable[NewEntry], session_id: str | None
) -> Session:
    """Create a session that shares the past of another one up to an entry, and ends with other entries."""
    child = store.sessions.create(
        session_id,
        parent_id=session.id,
        relation="fork",
        forked_at=last_seq,
        agent_title=title,
        **{name: getattr(session, name) for name in _COPIED_FIELDS},
    )
    store.connection.execute("update sessions set deleted = 1 where key = ?", (child.key,))
    store.chains.copy_to_fork(session.key, child.key, last_seq)
    _drop_orphan_results(store, child.key)
    store.chains.append(child.key, [*_interrupted_results(store, child.key), *ending])
    with store.journal.edit("fork", child.key) as edit:
        edit.update("sessions", child.key, deleted=0)
    return store.sessions.by_key(child.key)


def check_fork(store: Store, session: Session, turn: int, prompt: str | None) -> tuple[Session, _TurnSpan]:
    """Return the current state of the session, and the span of the turn.

    Raise an error if it cannot be forked there.
    """
    session = _get_current(store, session)
    first, last, newest = store.row(_SELECT_TURN_SPAN, session.key, turn)
    if first is None:
        raise NotFound(f"No such turn: {turn}. The last turn is {newest}.")
    if prompt is not None:
        if not validate_text(prompt, "prompt").strip():
            raise BadValue("The prompt is empty.")
        if turn < 1:
            raise Refused("Turn 0 has no prompt to change. Choose a later turn.")
    return session, _TurnSpan(first, last)


def _get_current(store: Store, session: Session) -> Session:
    session = store.sessions.by_key(session.key)
    if session.deleted:
        raise Refused(f"{one_line(session.id)} is in the trash. Restore it before you fork it.")
    return session


def _drop_orphan_results(store: Store, child: int) -> None:
    """Delete the results without a call. The copies of their entries stay, so that both chains have the same seqs."""
    paired = set(store.rows(_PAIRED_RESULTS, child))
    store.connection.execute("delete from tool_calls where session = ? and status = 'orphan'", (child,))
    for key, column, record in store.rows(_ENTRIES_WITH_RESULTS, child):
        parts = decode_parts("", store.records.load_parts(column, record))
        orphans = {i for i, part in enumerate(parts) if isinstance(part, ToolResult) and (key, i) not in paired}
        if orphans:
            _drop_parts(store, key, parts, orphans)


def _drop_parts(store: Store, key: int, parts: Sequence[Part], indexes: set[int]) -> None:
    kept = [part for i, part in enumerate(parts) if i not in indexes]
    store.connection.execute(
        "update entries set parts = ?, kind = iif(?, kind, 'event'), role = iif(?, role, '') where key = ?",
        (encode([part_to_json(part) for part in kept]), bool(kept), bool(kept), key),
    )
    # The rows of tool calls refer to parts by their index.
    for entry, part in (("entry", "part"), ("result_entry", "result_part")):
        for index in sorted(indexes, reverse=True):
            store.connection.execute(
                f"update tool_calls set {part} = {part} - 1 where {entry} = ? and {part} > ?", (key, index)
            )


def _interrupted_results(store: Store, child: int) -> Iterator[NewEntry]:
    pending = store.rows(_PENDING_CALLS, child)
    results = tuple(ToolResult(call_id, INTERRUPTED_RESULT, is_error=True, name=name) for call_id, name in pending)
    if results:
        yield NewEntry(role="tool", parts=results, is_prompt=False)


def _new_prompt(store: Store, session: Session, span: _TurnSpan, prompt: str | None) -> Iterator[NewEntry]:
    if prompt is not None:
        author = store.chains.entry(session.key, span.first).author
        yield NewEntry(role="user", parts=(Text(prompt),), author=author, is_prompt=True)
