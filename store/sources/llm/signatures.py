"""This module names the tables by which the layouts of llm's database are recognized."""

from __future__ import annotations

THREADS_SIGNATURE = {
    "threads": ("id", "name", "tip_message_hash", "forked_from", "datetime_utc"),
    "turns": ("id", "thread_id", "parent_message_hash", "tip_message_hash", "model", "datetime_utc"),
    "messages": ("hash", "parent_hash", "role"),
    "parts": ("id", "message_hash", "position", "type", "text", "payload"),
}
RESPONSES_SIGNATURE = {
    "conversations": ("id", "name", "model"),
    "responses": ("id", "model", "prompt", "system", "response", "conversation_id", "datetime_utc"),
}
_LOG_COLUMNS = ("model", "timestamp", "prompt", "system", "response", "chat_id")
LOG_SIGNATURES = ({"logs": _LOG_COLUMNS}, {"log": _LOG_COLUMNS})

LOG_PREFIX = "logs:"
"""Begins the native id of a session from the logs of 2023."""
