"""This module defines the source of ChatGPT exports.

An export holds each conversation as a tree of messages and names the message that was shown last.
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


class ChatGPT(ExportSource):
    """Recognizes and opens ChatGPT exports."""

    name = "chatgpt"

    def is_conversation(self, value: Mapping[str, Json]) -> bool:
        from store.sources.chatgpt.reader import is_conversation

        return is_conversation(value)

    def make_reader(self, files: Sequence[ExportFile]) -> ExportReader:
        from store.sources.chatgpt.reader import ChatGPTReader

        return ChatGPTReader(files)

    def resume(self, session: Session) -> ResumeCommand:
        conversation_id = session.native_id.partition("/")[0]
        return ResumeCommand(None, hint=f"Open https://chatgpt.com/c/{conversation_id} in a browser.")
