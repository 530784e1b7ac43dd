"""A transcript forked as Claude Code's own SDK does it: copies of the records under new ids, each of which says whose
copy it is, in a file of their own beside the original."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from store.errors import Refused
from store.model.entry import INTERRUPTED, Json
from store.model.session import Session
from store.sources.claude_code.entries import kept_in, name_of
from store.sources.claude_code.prompts import blocks_of, said
from store.sources.contract import NewTranscript, Past
from store.sources.kit.jsonl import UNREADABLE, items, mapping, parsed, words
from store.text.validate import spell

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CHAINED = frozenset(["user", "assistant", "attachment", "system", "progress"])
_OF_THE_ORIGINAL = ("teamName", "agentName", "slug", "sourceToolAssistantUUID", "sessionKind")
_PLAIN = re.compile("[^A-Za-z0-9]")
_LONGEST_NAME = 200
_MARK = " (fork)"
_UNATTENDED = "sdk-"
_RESULT = "tool_result"
_OUTPUTS = "tool-results"


def can_fork(session: Session) -> bool:
    return session.relation not in ("delegate", "sidechain") and bool(_UUID.fullmatch(_transcript(session)))


def _transcript(session: Session) -> str:
    """The file's name; a branch that was left behind is named after it."""
    return session.native_id.partition("/")[0]


def forked(past: Past, root: Path) -> NewTranscript:
    """The files in which long outputs are kept go with it: Claude Code deletes the original's one day."""
    native_id = str(uuid4())
    folder = _folder(past.session, root)
    lines = [spell(value) for value in _Copying(past, native_id).lines()]
    beside: list[tuple[Path, Path]] = []
    for place in _kept_beside(past.records):
        origin = folder / _transcript(past.session) / _OUTPUTS / name_of(place)
        copy = folder / native_id / _OUTPUTS / origin.name
        if origin.is_file() and not origin.is_symlink():
            beside.append((origin, copy))
            old, new = (spell(text)[1:-1] for text in (place, str(copy)))
            lines = [line.replace(old, new) for line in lines]
    return NewTranscript(native_id, folder / f"{native_id}.jsonl", lines, beside)


def _kept_beside(records: Sequence[bytes]) -> set[str]:
    """The paths of outputs too long for the transcript."""
    found: set[str] = set()
    for data in records:
        if _OUTPUTS.encode() in data:
            value = _understood(data)
            for block in _blocks(value, _RESULT):
                found.add(kept_in(block.get("content"), mapping(value.get("toolUseResult"))))
    return {place for place in found if name_of(place)}


# ── where ─────────────────────────────────────────────────────────────────────────────────────────


def _folder(session: Session, root: Path) -> Path:
    """Where the original is, else where Claude Code would look for a session of that folder."""
    projects = root / "projects"
    try:
        found = sorted(projects.glob(f"*/{_transcript(session)}.jsonl"))
    except UNREADABLE:
        found = []
    return found[0].parent if found else projects / _name_of(session.cwd, projects)


def _name_of(cwd: str, projects: Path) -> str:
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise Refused("It is not known in which folder the session was, so Claude Code would not find its fork.")
    # As JavaScript counts: a character beyond the first 65,536 is two.
    path = unicodedata.normalize("NFC", os.path.realpath(cwd))
    name = _PLAIN.sub(lambda found: "-" * (1 + (found[0] > "\uffff")), path)
    if len(name) <= _LONGEST_NAME:
        return name
    begins = f"{name[:_LONGEST_NAME]}-"
    beside = [path.name for path in projects.iterdir() if path.name.startswith(begins)] if projects.is_dir() else []
    if len(beside) != 1:
        raise Refused("The folder's path is so long that it is not known where Claude Code would look for the fork.")
    return beside[0]


# ── what ──────────────────────────────────────────────────────────────────────────────────────────


class _Copying:
    """The records of a past on their way into another transcript."""

    def __init__(self, past: Past, native_id: str) -> None:
        self._past = past
        self._native_id = native_id
        self._at = past.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._records = [_understood(data) for data in past.records]
        self._new: dict[str, str | None] = {}
        "The new id by the old one; of what is left out, that of the record before it."
        self._last: str | None = None
        self._has_copies = False
        chained = [value for value in self._records if _is_chained(value)]
        self._asked = {words(block.get("id")) for value in chained for block in _blocks(value, "tool_use")}
        self._answered = {words(block.get("tool_use_id")) for value in chained for block in _blocks(value, _RESULT)}
        self._open: list[str] = []
        self._model: Mapping[str, Json] = {}
        "The newest record, after whose kind others are made."

    def lines(self) -> list[dict[str, Json]]:
        prompt = self._past.prompt
        last = len(self._records) - 1
        copied = [
            line
            for at, value in enumerate(self._records)
            if _is_chained(value)
            for line in (self._asking(value, prompt) if at == last and prompt is not None else self._copy(value))
        ]
        copied += self._close()
        if not any(line["type"] in ("user", "assistant") for line in copied):
            raise Refused("There is nothing in it that Claude Code could go on with.")
        # On resume the leaf is told by its time.
        copied[-1]["timestamp"] = self._at
        return [*copied, *self._about()]

    def _copy(self, value: dict[str, Json]) -> Iterator[dict[str, Json]]:
        old, parent = words(value["uuid"]), words(value.get("parentUuid"))
        above = self._new.get(parent, self._last) if parent else None
        if old in self._new:
            return
        if not (kept := self._kept(value)):
            self._new[old] = above
            return
        if value["type"] == "user" and said(value) is not None:
            for closing in self._close():
                above = above and words(closing["uuid"])
                yield closing
        self._has_copies = True
        yield self._placed(
            kept,
            above,
            old,
            timestamp=value.get("timestamp", self._at),
            forkedFrom={"sessionId": _transcript(self._past.session), "messageUuid": old},
        )
        self._open += [words(block.get("id")) for block in _blocks(kept, "tool_use")]

    def _placed(self, value: Mapping[str, Json], above: str | None, old: str, **changes: Json) -> dict[str, Json]:
        new = str(uuid4())
        kept = {name: held for name, held in value.items() if name not in _OF_THE_ORIGINAL and name != "forkedFrom"}
        if logical := words(value.get("logicalParentUuid")):
            kept["logicalParentUuid"] = self._new.get(logical)
        # What nobody sat before is not listed, and goes on unlisted; somebody sits before the fork.
        if words(value.get("entrypoint")).startswith(_UNATTENDED):
            kept["entrypoint"] = "cli"
        self._new[old] = self._last = new
        self._model = value
        ids = {"parentUuid": above, "isSidechain": False, "uuid": new, "sessionId": self._native_id}
        # Readers find the parent at a line's very beginning.
        return {"parentUuid": above, **kept, **ids, **changes}

    def _kept(self, value: dict[str, Json]) -> dict[str, Json]:
        """Without results that nobody asked for; nothing, where nothing is left of it."""
        if value["type"] == "progress":
            return {}
        orphans = [block for block in _blocks(value, _RESULT) if words(block.get("tool_use_id")) not in self._asked]
        if not orphans:
            return value
        left = [block for block in blocks_of(value) if block not in orphans]
        return value | {"message": {**mapping(value["message"]), "content": left}} if left else {}

    def _close(self) -> Iterator[dict[str, Json]]:
        """What was never answered is, before the person speaks again: Anthropic wants the two side by side."""
        waiting = [call for call in self._open if call not in self._answered]
        self._open = []
        if not waiting:
            return
        content = [{"tool_use_id": call, "type": _RESULT, "content": INTERRUPTED, "is_error": True} for call in waiting]
        yield self._spoken(content, f"Error: {INTERRUPTED}")

    def _asking(self, value: dict[str, Json], prompt: str) -> Iterator[dict[str, Json]]:
        """The person's words in place of those that were said; what was shown with them stays."""
        yield from self._close()
        shown = [block for block in blocks_of(value) if mapping(block).get("type") in ("image", "document")]
        yield self._spoken([{"type": "text", "text": prompt}, *shown] if shown else prompt)

    def _spoken(self, content: Json, result: str = "") -> dict[str, Json]:
        old = self._model or self._records[-1]
        told = {name: old[name] for name in ("userType", "entrypoint", "cwd", "version", "gitBranch") if name in old}
        more: dict[str, Json] = {"toolUseResult": result} if result else {"promptId": str(uuid4())}
        line = {"type": "user", "message": {"role": "user", "content": content}, **told, **more}
        return self._placed(line, self._last, str(uuid4()), timestamp=self._at)

    def _about(self) -> Iterator[dict[str, Json]]:
        of_fork = {"sessionId": self._native_id, "timestamp": self._at}
        replaced = [
            one
            for value in self._records
            if value.get("type") == "content-replacement"
            for one in items(value.get("replacements"))
        ]
        if replaced:
            yield {"type": "content-replacement", "replacements": replaced, **of_fork}
        title = (self._past.session.title or "Session").removesuffix(_MARK) + _MARK
        # With another first prompt there is no copy that could name the original.
        origin = {} if self._has_copies else {"forkedFrom": {"sessionId": _transcript(self._past.session)}}
        yield {"type": "custom-title", "customTitle": title, **of_fork, **origin}


def _understood(data: bytes) -> dict[str, Json]:
    return dict(mapping(parsed(data)))


def _is_chained(value: Mapping[str, Json]) -> bool:
    is_ours = value.get("type") in _CHAINED and bool(words(value.get("uuid")))
    return is_ours and value.get("isSidechain") is not True


def _blocks(value: Mapping[str, Json], kind: str) -> Iterator[Mapping[str, Json]]:
    if "message" in value:
        yield from (block for block in map(mapping, blocks_of(value)) if block.get("type") == kind)
