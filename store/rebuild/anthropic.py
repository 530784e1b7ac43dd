"""Units as messages of Anthropic's API, with the system prompt beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from store.model.entry import Json, Text, ToolCall, ToolResult
from store.rebuild.messages import Vocabulary, answer, arguments, content, messages, note_native, tool_name
from store.rebuild.unit import Account, Payload, Unit, mapping, words

NO_PROMPT = "(What was asked first is not known.)"


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _file(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "image", "source": _source(payload)}
    if payload.is_pdf:
        document = {"type": "document", "source": _source(payload)}
        return {**document, "title": payload.name} if payload.name else document
    return None


def _source(payload: Payload) -> Json:
    if payload.url:
        return {"type": "url", "url": payload.url}
    return {"type": "base64", "media_type": payload.media_type, "data": payload.data}


WORDS = Vocabulary(_text, _file)


def spelled(units: Sequence[Unit], system: str, account: Account) -> dict[str, Json]:
    preface, rest = _parted(units, account)
    told: list[tuple[str, Json]] = []
    for message in messages(rest):
        role = "assistant" if message.role == "assistant" else "user"
        told += [(role, block) for unit in message.units if (block := _block(unit, account)) is not None]
        told += [("user", _result(unit, account)) for unit in message.answers]
    if told and told[0][0] != "user":
        account.mended.append("The conversation begins with the assistant: a word of the user's is set before it.")
        told.insert(0, ("user", NO_PROMPT))
    said = [_message(role, [block for _, block in run]) for role, run in groupby(told, lambda one: one[0])]
    _trim(said, account)
    prompt = "\n\n".join(filter(None, [system, *preface]))
    return {"system": prompt, "messages": said} if prompt else {"messages": said}


def _parted(units: Sequence[Unit], account: Account) -> tuple[list[str], list[Unit]]:
    """Instructions at the head belong to the system prompt; later ones stand where they were, in the user's name."""
    preface: list[str] = []
    rest: list[Unit] = []
    for unit in units:
        if unit.role != "system":
            rest.append(unit)
        elif not rest and isinstance(unit.part, Text):
            account.note("system message", "mapped", "it stands in the system prompt")
            preface.append(unit.part.text)
        else:
            account.note("system message", "mapped", "it stands in the user's name")
            rest.append(replace(unit, role="user"))
    return preface, rest


def _block(unit: Unit, account: Account) -> Json:
    if unit.is_native:
        note_native(unit, account)
        return unit.native
    if isinstance(unit.part, ToolCall):
        account.note("tool call", "kept")
        name, given = tool_name(unit.part, account), dict(arguments(unit.part, account))
        return {"type": "tool_use", "id": unit.call_id, "name": name, "input": given}
    return content(unit, WORDS, account)


def _result(unit: Unit, account: Account) -> Json:
    if unit.is_native:
        note_native(unit, account)
        return unit.native
    block = {"type": "tool_result", "tool_use_id": unit.call_id, "content": answer(unit, WORDS, account)}
    failed = isinstance(unit.part, ToolResult) and unit.part.is_error
    return {**block, "is_error": True} if failed else block


def _message(role: str, blocks: list[Json]) -> dict[str, Json]:
    """Results stand first, as they must; what was one plain text stays one."""
    blocks = sorted(blocks, key=lambda block: mapping(block).get("type") != "tool_result") if role == "user" else blocks
    if len(blocks) == 1 and isinstance(blocks[0], str):
        return {"role": role, "content": blocks[0]}
    return {"role": role, "content": [_text(block) if isinstance(block, str) else block for block in blocks]}


def _trim(said: list[dict[str, Json]], account: Account) -> None:
    """The assistant's last words must not end in a space."""
    if not said or said[-1]["role"] != "assistant":
        return
    last = said[-1]
    content = last["content"]
    text = content if isinstance(content, str) else words(mapping(content[-1]).get("text"))
    if text == text.rstrip():
        return
    account.note("text", "mapped", "the space at the end of the last answer is cut off")
    trimmed: Json = (
        text.rstrip() if isinstance(content, str) else [*content[:-1], {**content[-1], "text": text.rstrip()}]
    )
    said[-1] = {**last, "content": trimmed}
