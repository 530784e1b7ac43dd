"""This module keeps plain conversations: a list of who said what, for each user and session.

It serves agents that send their model one text: the system prompt, the history and the new input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self, TypedDict
from urllib.parse import quote

from store.errors import BadValue, NotFound
from store.model.entry import NewEntry, NewRecord, Part, Text
from store.text.validate import encode, validate_id

if TYPE_CHECKING:
    from store.model.session import SessionFields
    from store.store import Store

Role = Literal["User", "Assistant"]

DEBUG_USER = "debug_user"
DEBUG_SESSION = "debug_session"

_STORED_ROLES: dict[str, str] = {"User": "user", "Assistant": "assistant"}
_SHOWN_ROLES: dict[str, Role] = {"user": "User", "assistant": "Assistant"}


class ChatMessage(TypedDict):
    "One message of a chat history."

    role: Role
    content: str


class ChatHistory:
    """Holds what one user and the assistant said in one session. The first message creates it in the store."""

    def __init__(self, store: Store, user_id: str = DEBUG_USER, session_id: str = DEBUG_SESSION) -> None:
        self._store = store
        self.user_id = validate_id(user_id, "user id")
        self.session_id = validate_id(session_id)
        # The names are quoted, so that a slash in a name cannot give two conversations the same id.
        self.id = "/".join(quote(name, safe="") for name in ("chat", user_id, session_id))

    @classmethod
    def for_username(cls, store: Store, username: str) -> Self:
        """Return the one session that a command line gives each of its users."""
        return cls(store, username, f"session_{username}")

    def messages(self, limit: int | None = None) -> list[ChatMessage]:
        """Return the messages in order, or only the newest; an empty list if nothing was said yet."""
        try:
            session = self._store.sessions.get(self.id)
        except NotFound:
            return []
        first = -1 if limit is None else self._store.chains.first_of_newest_messages(session.key, limit)
        return [
            {"role": _SHOWN_ROLES[entry.role], "content": _join_text(entry.parts)}
            for entry in self._store.chains.entries(session.key, first)
            if entry.kind == "message" and entry.role in _SHOWN_ROLES
        ]

    def construct_prompt(self, system_prompt: str, input_text: str, limit: int | None = None) -> str:
        """Return the system prompt, the history and the new input as one text, in this order.

        A limit takes only the newest messages of the history.
        """
        messages = [*self.messages(limit), ChatMessage(role="User", content=input_text)]
        lines = [f"{message['role']}: {message['content']}" for message in messages]
        return "\n\n".join([system_prompt, *lines] if system_prompt else lines)

    def append(self, role: str, content: str) -> None:
        """Append one message, by the User or the Assistant."""
        self._append("", (role, content))

    def run(
        self, input_text: str, generate: Callable[[str], str], system_prompt: str = "", limit: int | None = None
    ) -> str:
        """Call the model and store both sides. If the model fails, nothing is stored."""
        answer = generate(self.construct_prompt(system_prompt, input_text, limit))
        self._append(system_prompt, ("User", input_text), ("Assistant", answer))
        return answer

    def _append(self, system_prompt: str, *messages: tuple[str, str]) -> None:
        entries = [self._build_entry(role, content) for role, content in messages]
        fields: SessionFields = {"user": self.user_id, "native_id": self.session_id}
        if system_prompt:
            fields["system_prompt"] = system_prompt
        with self._store.transaction():
            session = self._store.sessions.ensure(self.id, **fields)
            self._store.chains.append(session.key, entries)

    def _build_entry(self, role: str, content: str) -> NewEntry:
        if role not in _STORED_ROLES:
            raise BadValue(f"A message is by the User or the Assistant, not by {role!r}.")
        if not isinstance(content, str):
            raise BadValue(f"The content must be text, not {type(content).__name__}.")
        return NewEntry(
            role=_STORED_ROLES[role],
            parts=(Text(content),),
            author=self.user_id if role == "User" else "",
            record=NewRecord(encode({"role": role, "content": content})),
        )


def _join_text(parts: tuple[Part, ...]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))
