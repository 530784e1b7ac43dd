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
from store.model.entry import INTERRUPTED_RESULT, Json
from store.model.session import Session
from store.sources.claude_code.entries import persisted_output_path, safe_file_name
from store.sources.claude_code.prompts import content_blocks, extract_prompt
from store.sources.contract import ForkRequest, NewTranscript
from store.sources.kit.jsonl import PATH_ERRORS, as_dict, as_list, as_str, parse_json
from store.text.validate import serialize

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_CHAIN_TYPES = frozenset(["user", "assistant", "attachment", "system", "progress"])
_DROPPED_FIELDS = ("teamName", "agentName", "slug", "sourceToolAssistantUUID", "sessionKind")
_NOT_ALPHANUMERIC = re.compile("[^A-Za-z0-9]")
_MAX_FOLDER_NAME = 200
_FORK_SUFFIX = " (fork)"
_SDK_PREFIX = "sdk-"
_RESULT = "tool_result"
_OUTPUTS_FOLDER = "tool-results"


def can_fork(session: Session) -> bool:
    return session.relation not in ("delegate", "sidechain") and bool(_UUID.fullmatch(_transcript_id(session)))


def _transcript_id(session: Session) -> str:
    """The file's name; a branch that was left behind is named after it."""
    return session.native_id.partition("/")[0]


def build_fork(past: ForkRequest, root: Path) -> NewTranscript:
    """The files in which long outputs are kept go with it: Claude Code deletes the original's one day."""
    native_id = str(uuid4())
    folder = _find_project_folder(past.session, root)
    lines = [serialize(value) for value in _ClaudeForkBuilder(past, native_id).build_lines()]
    beside: list[tuple[Path, Path]] = []
    for place in _find_output_paths(past.records):
        origin = folder / _transcript_id(past.session) / _OUTPUTS_FOLDER / safe_file_name(place)
        copy = folder / native_id / _OUTPUTS_FOLDER / origin.name
        if origin.is_file() and not origin.is_symlink():
            beside.append((origin, copy))
            old, new = (serialize(text)[1:-1] for text in (place, str(copy)))
            lines = [line.replace(old, new) for line in lines]
    return NewTranscript(native_id, folder / f"{native_id}.jsonl", lines, beside)


def _find_output_paths(records: Sequence[bytes]) -> set[str]:
    """The paths of outputs too long for the transcript."""
    found: set[str] = set()
    for data in records:
        if _OUTPUTS_FOLDER.encode() in data:
            value = _parse_record(data)
            for block in _blocks_of_type(value, _RESULT):
                found.add(persisted_output_path(block.get("content"), as_dict(value.get("toolUseResult"))))
    return {place for place in found if safe_file_name(place)}


# ── where ─────────────────────────────────────────────────────────────────────────────────────────


def _find_project_folder(session: Session, root: Path) -> Path:
    """Where the original is, else where Claude Code would look for a session of that folder."""
    projects = root / "projects"
    try:
        found = sorted(projects.glob(f"*/{_transcript_id(session)}.jsonl"))
    except PATH_ERRORS:
        found = []
    return found[0].parent if found else projects / _project_folder_name(session.cwd, projects)


def _project_folder_name(cwd: str, projects: Path) -> str:
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise Refused("It is not known in which folder the session was, so Claude Code would not find its fork.")
    # As JavaScript counts: a character beyond the first 65,536 is two.
    path = unicodedata.normalize("NFC", os.path.realpath(cwd))
    name = _NOT_ALPHANUMERIC.sub(lambda found: "-" * (1 + (found[0] > "\uffff")), path)
    if len(name) <= _MAX_FOLDER_NAME:
        return name
    begins = f"{name[:_MAX_FOLDER_NAME]}-"
    beside = [path.name for path in projects.iterdir() if path.name.startswith(begins)] if projects.is_dir() else []
    if len(beside) != 1:
        raise Refused("The folder's path is so long that it is not known where Claude Code would look for the fork.")
    return beside[0]


# ── what ──────────────────────────────────────────────────────────────────────────────────────────


class _ClaudeForkBuilder:
    """The records of a past on their way into another transcript."""

    def __init__(self, past: ForkRequest, native_id: str) -> None:
        self._request = past
        self._native_id = native_id
        self._timestamp = past.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._records = [_parse_record(data) for data in past.records]
        self._new_ids: dict[str, str | None] = {}
        "The new id by the old one; of what is left out, that of the record before it."
        self._last_id: str | None = None
        self._has_copies = False
        chained = [value for value in self._records if _is_chain_record(value)]
        self._call_ids = {as_str(block.get("id")) for value in chained for block in _blocks_of_type(value, "tool_use")}
        self._answered_ids = {
            as_str(block.get("tool_use_id")) for value in chained for block in _blocks_of_type(value, _RESULT)
        }
        self._open_calls: list[str] = []
        self._template: Mapping[str, Json] = {}
        "The newest record, after whose kind others are made."

    def build_lines(self) -> list[dict[str, Json]]:
        prompt = self._request.prompt
        last = len(self._records) - 1
        copied = [
            line
            for at, value in enumerate(self._records)
            if _is_chain_record(value)
            for line in (
                self._replace_prompt(value, prompt) if at == last and prompt is not None else self._copy_record(value)
            )
        ]
        copied += self._close_open_calls()
        if not any(line["type"] in ("user", "assistant") for line in copied):
            raise Refused("There is nothing in it that Claude Code could go on with.")
        # On resume the leaf is told by its time.
        copied[-1]["timestamp"] = self._timestamp
        return [*copied, *self._session_records()]

    def _copy_record(self, value: dict[str, Json]) -> Iterator[dict[str, Json]]:
        old, parent = as_str(value["uuid"]), as_str(value.get("parentUuid"))
        above = self._new_ids.get(parent, self._last_id) if parent else None
        if old in self._new_ids:
            return
        if not (kept := self._without_orphan_results(value)):
            self._new_ids[old] = above
            return
        if value["type"] == "user" and extract_prompt(value) is not None:
            for closing in self._close_open_calls():
                above = above and as_str(closing["uuid"])
                yield closing
        self._has_copies = True
        yield self._relink(
            kept,
            above,
            old,
            timestamp=value.get("timestamp", self._timestamp),
            forkedFrom={"sessionId": _transcript_id(self._request.session), "messageUuid": old},
        )
        self._open_calls += [as_str(block.get("id")) for block in _blocks_of_type(kept, "tool_use")]

    def _relink(self, value: Mapping[str, Json], above: str | None, old: str, **changes: Json) -> dict[str, Json]:
        new = str(uuid4())
        kept = {name: held for name, held in value.items() if name not in _DROPPED_FIELDS and name != "forkedFrom"}
        if logical := as_str(value.get("logicalParentUuid")):
            kept["logicalParentUuid"] = self._new_ids.get(logical)
        # What nobody sat before is not listed, and goes on unlisted; somebody sits before the fork.
        if as_str(value.get("entrypoint")).startswith(_SDK_PREFIX):
            kept["entrypoint"] = "cli"
        self._new_ids[old] = self._last_id = new
        self._template = value
        ids = {"parentUuid": above, "isSidechain": False, "uuid": new, "sessionId": self._native_id}
        # Readers find the parent at a line's very beginning.
        return {"parentUuid": above, **kept, **ids, **changes}

    def _without_orphan_results(self, value: dict[str, Json]) -> dict[str, Json]:
        """Without results that nobody asked for; nothing, where nothing is left of it."""
        if value["type"] == "progress":
            return {}
        orphans = [
            block for block in _blocks_of_type(value, _RESULT) if as_str(block.get("tool_use_id")) not in self._call_ids
        ]
        if not orphans:
            return value
        left = [block for block in content_blocks(value) if block not in orphans]
        return value | {"message": {**as_dict(value["message"]), "content": left}} if left else {}

    def _close_open_calls(self) -> Iterator[dict[str, Json]]:
        """What was never answered is, before the person speaks again: Anthropic wants the two side by side."""
        waiting = [call for call in self._open_calls if call not in self._answered_ids]
        self._open_calls = []
        if not waiting:
            return
        content = [
            {"tool_use_id": call, "type": _RESULT, "content": INTERRUPTED_RESULT, "is_error": True} for call in waiting
        ]
        yield self._make_user_record(content, f"Error: {INTERRUPTED_RESULT}")

    def _replace_prompt(self, value: dict[str, Json], prompt: str) -> Iterator[dict[str, Json]]:
        """The person's words in place of those that were said; what was shown with them stays."""
        yield from self._close_open_calls()
        shown = [block for block in content_blocks(value) if as_dict(block).get("type") in ("image", "document")]
        yield self._make_user_record([{"type": "text", "text": prompt}, *shown] if shown else prompt)

    def _make_user_record(self, content: Json, result: str = "") -> dict[str, Json]:
        old = self._template or self._records[-1]
        told = {name: old[name] for name in ("userType", "entrypoint", "cwd", "version", "gitBranch") if name in old}
        more: dict[str, Json] = {"toolUseResult": result} if result else {"promptId": str(uuid4())}
        line = {"type": "user", "message": {"role": "user", "content": content}, **told, **more}
        return self._relink(line, self._last_id, str(uuid4()), timestamp=self._timestamp)

    def _session_records(self) -> Iterator[dict[str, Json]]:
        of_fork = {"sessionId": self._native_id, "timestamp": self._timestamp}
        replaced = [
            one
            for value in self._records
            if value.get("type") == "content-replacement"
            for one in as_list(value.get("replacements"))
        ]
        if replaced:
            yield {"type": "content-replacement", "replacements": replaced, **of_fork}
        title = (self._request.session.title or "Session").removesuffix(_FORK_SUFFIX) + _FORK_SUFFIX
        # With another first prompt there is no copy that could name the original.
        origin = {} if self._has_copies else {"forkedFrom": {"sessionId": _transcript_id(self._request.session)}}
        yield {"type": "custom-title", "customTitle": title, **of_fork, **origin}


def _parse_record(data: bytes) -> dict[str, Json]:
    return dict(as_dict(parse_json(data)))


def _is_chain_record(value: Mapping[str, Json]) -> bool:
    is_ours = value.get("type") in _CHAIN_TYPES and bool(as_str(value.get("uuid")))
    return is_ours and value.get("isSidechain") is not True


def _blocks_of_type(value: Mapping[str, Json], kind: str) -> Iterator[Mapping[str, Json]]:
    if "message" in value:
        yield from (block for block in map(as_dict, content_blocks(value)) if block.get("type") == kind)
