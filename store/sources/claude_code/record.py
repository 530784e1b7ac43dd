"""This module says what a record of Claude Code is: everything else that reads transcripts asks it, and knows no fields
of its own that a record shares with others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from store.model.entry import Json
from store.sources.claude_code.prompts import COMMAND_START, extract_typed_text
from store.sources.kit.jsonl import as_dict, as_str
from store.text.validate import replace_surrogates

SYNTHETIC_MODEL = "<synthetic>"
"""The model of an answer that the program wrote itself, as after local commands: "No response requested."."""

SUMMARY_TYPE = "summary"
"""The type of the records in which versions before 2.1 wrote titles, often into the file of another session."""

TITLE_FIELDS = {"custom-title": "customTitle", "ai-title": "aiTitle"}
MESSAGE_TYPES = frozenset(["user", "assistant", "system"])
SPAWN_REPORT_TYPES = frozenset(["user", "progress"])
"""The types of the records that may name a sub-agent together with the call that started it."""
_NOT_EXTRACTED = "\0"
_NO_FIELDS: Mapping[str, Json] = {}


class SpawnCall(NamedTuple):
    """Describes a call that starts a sub-agent."""

    id: str
    description: str
    prompt: str


class Original(NamedTuple):
    """Names a record that was copied into another transcript."""

    session: str
    uuid: str


class ClaudeRecord:
    """Is one record of a transcript. What takes long to find out is found out once, when it is first asked."""

    __slots__ = ("_prompt", "blocks", "fields", "kind", "message", "parent", "text", "uuid", "value")

    def __init__(self, value: Json) -> None:
        fields: dict[str, Json] = value if type(value) is dict else {}
        kind, message = fields.get("type"), fields.get("message")
        self.value = value
        self.fields = fields
        self.kind = kind if type(kind) is str else ""
        self.uuid = _parse_id(fields.get("uuid"))
        self.parent = _parse_id(fields.get("parentUuid") or fields.get("logicalParentUuid"))
        self.message: Mapping[str, Json] = message if type(message) is dict else _NO_FIELDS
        content = self.message.get("content") if self.message else None
        self.blocks: list[Json] = content if type(content) is list else _make_blocks(content)
        "Is the content of the message as a list, also when it is a plain text."
        self.text = content if type(content) is str else ""
        "Is the content of the message if it is a plain text."
        self._prompt: str | None = _NOT_EXTRACTED

    @property
    def is_sidechain(self) -> bool:
        return self.fields.get("isSidechain") is True

    @property
    def is_answer(self) -> bool:
        return self.kind == "assistant" and self.message.get("model") != SYNTHETIC_MODEL

    @property
    def title(self) -> str:
        """Return the title that the record gives to its session."""
        return as_str(self.fields.get(TITLE_FIELDS[self.kind])) if self.kind in TITLE_FIELDS else ""

    # ── what a person typed ───────────────────────────────────────────────────────────────────────

    @property
    def prompt(self) -> str | None:
        """Return the prompt in a `user` record, or None if no person wrote it. A prompt with only an image is empty."""
        if self._prompt is _NOT_EXTRACTED:
            self._prompt = self._extract_prompt() if self.kind == "user" else None
        return self._prompt

    def _extract_prompt(self) -> str | None:
        fields = self.fields
        if fields.get("isMeta") is True or fields.get("isCompactSummary") is True:
            return None
        if as_dict(fields.get("origin")).get("kind") == "task-notification":
            return None
        blocks = [as_dict(block) for block in self.blocks]
        kinds = {as_str(block.get("type")) for block in blocks}
        if "tool_result" in kinds:
            return None
        texts = [extract_typed_text(as_str(block.get("text"))) for block in blocks if block.get("type") == "text"]
        text = "\n\n".join(filter(str.strip, texts))
        return text if text or kinds & {"image", "document"} else None

    @property
    def is_command(self) -> bool:
        """Return whether it is a command that a person entered."""
        return self.kind == "user" and bool(self.text) and COMMAND_START.match(self.text) is not None

    @property
    def names_command_first(self) -> bool:
        """Return whether a command is written as Claude Code writes local ones. Others begin with their message."""
        return self.text.lstrip().startswith("<command-name>")

    @property
    def is_command_output(self) -> bool:
        """Return whether it is the output of a local command. Such a command sends nothing to the model."""
        text = self.text or self.fields.get("content")
        return type(text) is str and text.lstrip().startswith("<local-command-std")

    # ── links to other conversations ──────────────────────────────────────────────────────────────

    @property
    def original(self) -> Original | None:
        """Return the record that this one is a copy of, or None if it names none."""
        if "forkedFrom" not in self.fields:
            return None
        origin = as_dict(self.fields["forkedFrom"])
        return Original(_parse_id(origin.get("sessionId")), _parse_id(origin.get("messageUuid")))

    def find_spawn_calls(self) -> Iterator[SpawnCall]:
        """Yield the calls in an answer that may start a sub-agent."""
        calls = [block for block in self.blocks if type(block) is dict and block.get("type") == "tool_use"]
        for call in calls:
            arguments = as_dict(call.get("input"))
            if isinstance(prompt := arguments.get("prompt"), str):
                yield SpawnCall(as_str(call.get("id")), as_str(arguments.get("description")), prompt)

    def find_spawned(self) -> Iterator[tuple[str, str]]:
        """Yield a sub-agent and the call that started it, if a result or a report of progress names both."""
        details = as_dict(self.fields.get("toolUseResult" if self.kind == "user" else "data"))
        agent = as_str(details["agentId"]) if "agentId" in details else ""
        if agent and self.kind == "user":
            calls = (as_str(as_dict(block).get("tool_use_id")) for block in self.blocks)
            yield from ((agent, call) for call in calls if call)
        elif agent and self.kind == "progress":
            yield agent, as_str(self.fields.get("parentToolUseID"))


def _make_blocks(content: Json) -> list[Json]:
    """Return content that is no list as a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [content] if content else []


def _parse_id(value: Json) -> str:
    return value if type(value) is str and value.isascii() else replace_surrogates(as_str(value))
