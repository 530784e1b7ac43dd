"""Units as messages of OpenAI's Chat API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from store.model.entry import Json, ToolCall
from store.rebuild.messages import (
    Vocabulary,
    answer,
    arguments,
    content,
    messages,
    note_failures,
    note_native,
    runs,
    tool_name,
)
from store.rebuild.unit import Account, Payload, Speaker, Unit, json_text

_SAYING = ("content", "tool_calls", "refusal", "audio", "function_call")
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _file(payload: Payload) -> Json:
    if payload.is_image:
        return {"type": "image_url", "image_url": {"url": payload.data_url}}
    if payload.is_pdf:
        return {"type": "file", "file": {"filename": payload.name or "file.pdf", "file_data": payload.data_url}}
    if payload.media_type in _AUDIO and payload.data:
        return {"type": "input_audio", "input_audio": {"data": payload.data, "format": _AUDIO[payload.media_type]}}
    return None


WORDS = Vocabulary(_text, _file)
WORDS_ALONE = Vocabulary(_text, lambda _: None)


def spelled(units: Sequence[Unit], system: str, account: Account) -> dict[str, Json]:
    said: list[Json] = [{"role": "system", "content": system}] if system else []
    note_failures(units, account)
    for message in messages(units):
        if message.role == "assistant":
            said += _assistant(message.units, account)
        else:
            said += _others(message.role, message.units, account)
        said += [_answer(unit, account) for unit in message.answers]
    return {"messages": said}


def _assistant(units: Sequence[Unit], account: Account) -> Iterator[Json]:
    """What the API itself said comes as it was, each by itself; all else is one message. Calls go with the last."""
    made: list[dict[str, Json]] = []
    calls: list[Json] = []
    spoken: list[Unit] = []
    for unit in units:
        if unit.is_call:
            calls.append(_call(unit, account))
        elif unit.is_native:
            note_native(unit, account)
            made += [{**_spoken(spoken, account)}] if spoken else []
            spoken = []
            made.append(dict(unit.native))
        else:
            spoken.append(unit)
    last = _spoken(spoken, account)
    made += [last] if "content" in last or (calls and not made) else []
    if calls:
        made[-1]["tool_calls"] = calls
    yield from (message for message in made if any(message.get(name) for name in _SAYING))


def _spoken(units: Sequence[Unit], account: Account) -> dict[str, Json]:
    said = [block["text"] for unit in units if (block := content(unit, WORDS_ALONE, account)) is not None]
    return {"role": "assistant", "content": "\n\n".join(said)} if said else {"role": "assistant"}


def _call(unit: Unit, account: Account) -> Json:
    if unit.is_native:
        note_native(unit, account)
        return unit.native
    account.note("tool call", "kept")
    call = unit.part if isinstance(unit.part, ToolCall) else ToolCall("", "", None)
    asked = {"name": tool_name(call, account), "arguments": json_text(arguments(call, account))}
    return {"id": unit.call_id, "type": "function", "function": asked}


def _others(role: Speaker, units: Sequence[Unit], account: Account) -> Iterator[Json]:
    for _, run in runs(units):
        if run[0].is_native:
            note_native(run[0], account)
            yield run[0].native
            continue
        blocks = WORDS if role == "user" else WORDS_ALONE
        said = [block for unit in run if (block := content(unit, blocks, account)) is not None]
        if said:
            plain = all(block["type"] == "text" for block in said)
            told: Json = "\n\n".join(block["text"] for block in said) if plain else said
            yield {"role": "system" if role == "system" else "user", "content": told}


def _answer(unit: Unit, account: Account) -> Json:
    if unit.is_native:
        note_native(unit, account)
        return unit.native
    return {"role": "tool", "tool_call_id": unit.call_id, "content": answer(unit, WORDS_ALONE, account)}
