"""This module defines the source of claude.ai exports.

An export holds conversations of messages with content blocks. An answer has both its tool calls and their results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from store.sources.contract import ResumeCommand
from store.sources.kit.export_source import ExportSource

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.session import Session
    from store.sources.kit.exports import ExportFile, ExportReader


class ClaudeAI(ExportSource):
    """Recognizes and opens claude.ai exports."""

    name = "claude-ai"

    def is_conversation(self, value: Mapping[str, Json]) -> bool:
        from store.sources.claude_ai.reader import is_conversation

        return is_conversation(value)

    def make_reader(self, files: Sequence[ExportFile]) -> ExportReader:
        from store.sources.claude_ai.reader import ClaudeAIReader

        return ClaudeAIReader(files)

    def resume(self, session: Session) -> ResumeCommand:
        conversation_id = session.native_id.partition("/")[0]
        return ResumeCommand(None, hint=f"Open https://claude.ai/chat/{conversation_id} in a browser.")
