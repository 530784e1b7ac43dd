"""This module reads rollouts for the quick index. It parses only messages, which the first bytes of a line reveal."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from pathlib import Path

from store.model.entry import Json
from store.model.session import SessionFields
from store.sources.codex.entries import find_prompt
from store.sources.codex.files import Rollout, RolloutCatalog, ThreadInfo, read_thread_infos, unwrap_line
from store.sources.codex.prompt_pairs import find_shown_text, select_typed
from store.sources.contract import QuickSession
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str
from store.sources.kit.line_scan import JSON_STRING, find_last_line, find_lines, parse_object, parse_string, read_chunks
from store.text.validate import replace_surrogates

_META_TYPE, _CONTEXT_TYPE, _MESSAGE_TYPE, _PROMPT_EVENT_TYPE = (
    b'"type":"session_meta"',
    b'"type":"turn_context"',
    b'"payload":{"type":"message"',
    b'"payload":{"type":"user_message"',
)
_HEAD_BYTES = 160
"""Limits the bytes at the start of a line that are searched for its type. The envelope comes before long values."""

_SINGLE_BLOCK = re.compile(
    rb'"payload":\{"type":"message","role":"assistant","content":\[\{"type":"output_text","text":(%s)\}\]' % JSON_STRING
)
"""Matches an answer with a single block, as nearly all have."""


def quick_read(locator: str, known: Container[str]) -> Iterator[QuickSession]:
    path = Path(locator)
    catalog, infos = RolloutCatalog(path, []), read_thread_infos(path) if path.is_dir() else {}
    newest = [rollouts[-1] for rollouts in catalog.threads.values()]
    for rollout in sorted(newest, key=lambda rollout: _modified_time(rollout.path), reverse=True):
        reader = _CodexQuickReader(rollout) if rollout.thread_id not in known else None
        if reader and reader.has_text:
            yield reader.build_session(infos.get(rollout.thread_id, ThreadInfo()))


def _modified_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class _CodexQuickReader:
    def __init__(self, rollout: Rollout) -> None:
        self._rollout = rollout
        self._prompts: list[str] = []
        self._shown: list[str] = []
        self._answers: list[str] = []
        self._meta: Mapping[str, Json] = {}
        self._context: Mapping[str, Json] = {}
        self._last_line = b""
        for chunk in read_chunks(rollout.path):
            self._scan_chunk(chunk)

    def _scan_chunk(self, chunk: bytes) -> None:
        for line in find_lines(_MESSAGE_TYPE, chunk, _HEAD_BYTES):
            self._last_line = line
            if single := _SINGLE_BLOCK.search(line):
                self._answers.append(parse_string(single[1]))
            else:
                self._read_message(*unwrap_line(parse_object(line)))
        for line in find_lines(_PROMPT_EVENT_TYPE, chunk, _HEAD_BYTES):
            self._shown.append(find_shown_text(unwrap_line(parse_object(line))[1]) or "")
        if context := find_last_line(_CONTEXT_TYPE, chunk, _HEAD_BYTES):
            self._context = unwrap_line(parse_object(context))[1]
        if not self._meta and (meta := next(find_lines(_META_TYPE, chunk, _HEAD_BYTES), b"")):
            self._meta = unwrap_line(parse_object(meta))[1]

    @property
    def has_text(self) -> bool:
        """Tells whether the quick index can list it. A rollout that continues another one needs its text too."""
        return bool(self._prompts or self._answers) and "history_base" not in self._meta

    def _read_message(self, kind: str, payload: Mapping[str, Json]) -> None:
        if payload.get("role") == "assistant":
            self._answers += (as_str(as_dict(block).get("text")) for block in as_list(payload.get("content")))
        elif (text := find_prompt(kind, payload)) is not None:
            self._prompts.append(text)

    def build_session(self, info: ThreadInfo) -> QuickSession:
        fields: SessionFields = {
            "agent_title": replace_surrogates(info.title),
            "provider": replace_surrogates(as_str(self._meta.get("model_provider"))),
            "model": replace_surrogates(as_str(self._context.get("model"))),
            "cwd": replace_surrogates(as_str(self._context.get("cwd")) or as_str(self._meta.get("cwd"))),
        }
        fields |= sqlite.time_fields(
            as_str(self._meta.get("timestamp")), as_str(parse_object(self._last_line).get("timestamp"))
        )
        parent = as_str(self._meta.get("parent_thread_id")) or info.parent_id
        if parent:
            fields |= {"parent_id": replace_surrogates(parent), "relation": "delegate"}
        prompts = select_typed(self._prompts, self._shown)
        return QuickSession(self._rollout.thread_id, fields, prompts, self._answers)
