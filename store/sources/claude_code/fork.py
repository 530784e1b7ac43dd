"""This module builds the transcript of a fork, as Claude Code's own SDK does. The records are copied with new ids into
a new file next to the original, and each copy names its original."""

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
from store.sources.claude_code.record import ClaudeRecord
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
    """Return the id in the file's name. The native id of a branch begins with it."""
    return session.native_id.partition("/")[0]


def build_fork(request: ForkRequest, root: Path) -> NewTranscript:
    """Return the transcript of a fork. The files with long outputs are copied too, since Claude Code deletes those of
    the original some day."""
    native_id = str(uuid4())
    folder = _find_project_folder(request.session, root)
    lines = [serialize(value) for value in _ClaudeForkBuilder(request, native_id).build_lines()]
    sidecar_files: list[tuple[Path, Path]] = []
    for path in _find_output_paths(request.records):
        origin = folder / _transcript_id(request.session) / _OUTPUTS_FOLDER / safe_file_name(path)
        copy = folder / native_id / _OUTPUTS_FOLDER / origin.name
        if origin.is_file() and not origin.is_symlink():
            sidecar_files.append((origin, copy))
            old, new = (serialize(text)[1:-1] for text in (path, str(copy)))
            lines = [line.replace(old, new) for line in lines]
    return NewTranscript(native_id, folder / f"{native_id}.jsonl", lines, sidecar_files)


def _find_output_paths(records: Sequence[bytes]) -> set[str]:
    """Return the paths of outputs that were too long for the transcript."""
    paths: set[str] = set()
    for data in records:
        if _OUTPUTS_FOLDER.encode() in data:
            value = _parse_record(data)
            for block in _blocks_of_type(value, _RESULT):
                paths.add(persisted_output_path(block.get("content"), as_dict(value.get("toolUseResult"))))
    return {path for path in paths if safe_file_name(path)}


# ── the folder ────────────────────────────────────────────────────────────────────────────────────


def _find_project_folder(session: Session, root: Path) -> Path:
    """Return the folder of the original, or else the one where Claude Code looks for sessions of that directory."""
    projects = root / "projects"
    try:
        originals = sorted(projects.glob(f"*/{_transcript_id(session)}.jsonl"))
    except PATH_ERRORS:
        originals = []
    return originals[0].parent if originals else projects / _project_folder_name(session.cwd, projects)


def _project_folder_name(cwd: str, projects: Path) -> str:
    if not os.path.isabs(cwd) or "\0" in cwd:
        raise Refused("The session's folder is unknown, so Claude Code would not find its fork.")
    # JavaScript counts a character beyond U+FFFF as two.
    path = unicodedata.normalize("NFC", os.path.realpath(cwd))
    name = _NOT_ALPHANUMERIC.sub(lambda match: "-" * (1 + (match[0] > "\uffff")), path)
    if len(name) <= _MAX_FOLDER_NAME:
        return name
    prefix = f"{name[:_MAX_FOLDER_NAME]}-"
    matching = [path.name for path in projects.iterdir() if path.name.startswith(prefix)] if projects.is_dir() else []
    if len(matching) != 1:
        raise Refused("The folder's path is too long to know where Claude Code would look for the fork.")
    return matching[0]


# ── the lines ─────────────────────────────────────────────────────────────────────────────────────


class _ClaudeForkBuilder:
    """Copies the records of a session into a new transcript."""

    def __init__(self, request: ForkRequest, native_id: str) -> None:
        self._request = request
        self._native_id = native_id
        self._timestamp = request.created_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        self._records = [_parse_record(data) for data in request.records]
        self._new_ids: dict[str, str | None] = {}
        "The new id by the old one. A record that is left out has the new id of its parent."
        self._last_id: str | None = None
        self._has_copies = False
        chained = [value for value in self._records if _is_chain_record(value)]
        self._call_ids = {as_str(block.get("id")) for value in chained for block in _blocks_of_type(value, "tool_use")}
        self._answered_ids = {
            as_str(block.get("tool_use_id")) for value in chained for block in _blocks_of_type(value, _RESULT)
        }
        self._open_calls: list[str] = []
        self._template: Mapping[str, Json] = {}
        "The newest record. New records take their fields from it."

    def build_lines(self) -> list[dict[str, Json]]:
        prompt = self._request.prompt
        last = len(self._records) - 1
        lines = [
            line
            for index, value in enumerate(self._records)
            if _is_chain_record(value)
            for line in (
                self._replace_prompt(value, prompt)
                if index == last and prompt is not None
                else self._copy_record(value)
            )
        ]
        lines += self._close_open_calls()
        if not any(line["type"] in ("user", "assistant") for line in lines):
            raise Refused("There is no message that Claude Code could continue from.")
        # On resume, Claude Code finds the leaf by its time.
        lines[-1]["timestamp"] = self._timestamp
        return [*lines, *self._session_records()]

    def _copy_record(self, value: dict[str, Json]) -> Iterator[dict[str, Json]]:
        old, parent = as_str(value["uuid"]), as_str(value.get("parentUuid"))
        new_parent = self._new_ids.get(parent, self._last_id) if parent else None
        if old in self._new_ids:
            return
        if not (answered := self._without_orphan_results(value)):
            self._new_ids[old] = new_parent
            return
        if ClaudeRecord(value).prompt is not None:
            for closing in self._close_open_calls():
                new_parent = new_parent and as_str(closing["uuid"])
                yield closing
        self._has_copies = True
        yield self._relink(
            answered,
            new_parent,
            old,
            timestamp=value.get("timestamp", self._timestamp),
            forkedFrom={"sessionId": _transcript_id(self._request.session), "messageUuid": old},
        )
        self._open_calls += [as_str(block.get("id")) for block in _blocks_of_type(answered, "tool_use")]

    def _relink(self, value: Mapping[str, Json], new_parent: str | None, old: str, **changes: Json) -> dict[str, Json]:
        new = str(uuid4())
        fields = {name: field for name, field in value.items() if name not in _DROPPED_FIELDS and name != "forkedFrom"}
        if logical := as_str(value.get("logicalParentUuid")):
            fields["logicalParentUuid"] = self._new_ids.get(logical)
        # Claude Code does not list sessions of its SDK. The fork belongs to a person, so it must be listed.
        if as_str(value.get("entrypoint")).startswith(_SDK_PREFIX):
            fields["entrypoint"] = "cli"
        self._new_ids[old] = self._last_id = new
        self._template = value
        ids = {"parentUuid": new_parent, "isSidechain": False, "uuid": new, "sessionId": self._native_id}
        # Readers look for the parent at the start of a line.
        return {"parentUuid": new_parent, **fields, **ids, **changes}

    def _without_orphan_results(self, value: dict[str, Json]) -> dict[str, Json]:
        """Return the record without results that have no call. It is empty when nothing else is left."""
        if value["type"] == "progress":
            return {}
        orphans = [
            block for block in _blocks_of_type(value, _RESULT) if as_str(block.get("tool_use_id")) not in self._call_ids
        ]
        if not orphans:
            return value
        remaining = [block for block in ClaudeRecord(value).blocks if block not in orphans]
        return value | {"message": {**as_dict(value["message"]), "content": remaining}} if remaining else {}

    def _close_open_calls(self) -> Iterator[dict[str, Json]]:
        """Yield a record with results for the calls that have none. Anthropic requires a result right after a call."""
        unanswered = [call for call in self._open_calls if call not in self._answered_ids]
        self._open_calls = []
        if not unanswered:
            return
        content = [
            {"tool_use_id": call, "type": _RESULT, "content": INTERRUPTED_RESULT, "is_error": True}
            for call in unanswered
        ]
        yield self._make_user_record(content, f"Error: {INTERRUPTED_RESULT}")

    def _replace_prompt(self, value: dict[str, Json], prompt: str) -> Iterator[dict[str, Json]]:
        """Yield the new prompt in place of the old one. Its images and documents are kept."""
        yield from self._close_open_calls()
        attachments = [
            block for block in ClaudeRecord(value).blocks if as_dict(block).get("type") in ("image", "document")
        ]
        yield self._make_user_record([{"type": "text", "text": prompt}, *attachments] if attachments else prompt)

    def _make_user_record(self, content: Json, result: str = "") -> dict[str, Json]:
        template = self._template or self._records[-1]
        common = {
            name: template[name]
            for name in ("userType", "entrypoint", "cwd", "version", "gitBranch")
            if name in template
        }
        extra: dict[str, Json] = {"toolUseResult": result} if result else {"promptId": str(uuid4())}
        line = {"type": "user", "message": {"role": "user", "content": content}, **common, **extra}
        return self._relink(line, self._last_id, str(uuid4()), timestamp=self._timestamp)

    def _session_records(self) -> Iterator[dict[str, Json]]:
        fork_fields = {"sessionId": self._native_id, "timestamp": self._timestamp}
        replacements = [
            replacement
            for value in self._records
            if value.get("type") == "content-replacement"
            for replacement in as_list(value.get("replacements"))
        ]
        if replacements:
            yield {"type": "content-replacement", "replacements": replacements, **fork_fields}
        title = (self._request.session.title or "Session").removesuffix(_FORK_SUFFIX) + _FORK_SUFFIX
        # If the first prompt was replaced, there is no copied record that names the original.
        origin = {} if self._has_copies else {"forkedFrom": {"sessionId": _transcript_id(self._request.session)}}
        yield {"type": "custom-title", "customTitle": title, **fork_fields, **origin}


def _parse_record(data: bytes) -> dict[str, Json]:
    return dict(as_dict(parse_json(data)))


def _is_chain_record(value: Mapping[str, Json]) -> bool:
    is_linked = value.get("type") in _CHAIN_TYPES and bool(as_str(value.get("uuid")))
    return is_linked and value.get("isSidechain") is not True


def _blocks_of_type(value: Mapping[str, Json], kind: str) -> Iterator[Mapping[str, Json]]:
    if "message" in value:
        yield from (block for block in map(as_dict, ClaudeRecord(value).blocks) if block.get("type") == kind)
