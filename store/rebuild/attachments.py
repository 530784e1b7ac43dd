"""What an attachment holds. The store keeps no files of its own: bytes stand in the record, wherever and however the
program that wrote it put them. A file that is only named is never opened: the name came from a stranger."""

from __future__ import annotations

import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence

from store.model.entry import Attachment, Json
from store.rebuild.native import decode_or_none
from store.rebuild.unit import Payload, as_dict, as_str, json_text

_TYPE_FIELDS = ("media_type", "mime_type", "mimeType", "MIMEType", "mime", "type")
_DATA_FIELDS = ("data", "Data", "content")
_TEXT_FIELDS = ("extracted_content", "content")
_NAME_FIELDS = ("file_name", "source", "hash")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=-]+)*;base64,(.+)", re.DOTALL)
_URL_SAFE = str.maketrans("-_", "+/", "\r\n\t ")
_MAX_DEPTH = 40
_MAX_NESTED_JSON = 3
"""How often JSON may stand as text within JSON."""


def find_payloads(record: Json) -> Iterator[Payload]:
    """Everything in a record that an attachment could be, in order."""
    for told in iter_dicts(record):
        for value in told.values():
            found = _DATA_URL.fullmatch(value) if isinstance(value, str) and value.startswith("data:") else None
            if found and (data := _normalize_base64(found[2])):
                yield Payload(found[1], data)
        kind = next((told[name] for name in _TYPE_FIELDS if "/" in as_str(told.get(name))), "")
        if kind and (data := next(filter(None, (_read_base64(told.get(name)) for name in _DATA_FIELDS)), "")):
            yield Payload(kind, data)
        name = next((told[name] for name in _NAME_FIELDS if as_str(told.get(name))), "")
        text = next((told[field] for field in _TEXT_FIELDS if as_str(told.get(field))), "")
        if name and text:
            yield Payload("text/plain", text=text, name=name)


def iter_dicts(value: Json, levels: int = _MAX_DEPTH, nested: int = _MAX_NESTED_JSON) -> Iterator[Mapping[str, Json]]:
    """Every object in a record, also in the JSON that a column of a database holds as text."""
    if not levels:
        return
    if isinstance(value, Mapping):
        yield value
        for held in value.values():
            yield from iter_dicts(held, levels - 1, nested)
    elif isinstance(value, list):
        for held in value:
            yield from iter_dicts(held, levels - 1, nested)
    elif isinstance(value, str) and nested and value[:1] in ("{", "[") and value[-1:] in ("}", "]"):
        yield from iter_dicts(decode_or_none(value), levels - 1, nested - 1)


def _read_base64(value: Json) -> str:
    return _normalize_base64(as_str(value) or as_str(as_dict(value).get("$base64")))


def _normalize_base64(spelled: str) -> str:
    """As it should be spelled; empty when it is none."""
    data = spelled.translate(_URL_SAFE).rstrip("=")
    data += "=" * (-len(data) % 4)
    try:
        return data if b64decode(data, validate=True) else ""
    except (NotBase64, ValueError):
        return ""


def match_payload(attachment: Attachment, among: Sequence[Payload]) -> Payload | None:
    """By its size and kind where they are known, and by its name where it is words."""
    for payload in among:
        if payload.text is not None:
            if payload.name == attachment.name:
                return payload
        elif _matches_type(payload.media_type, attachment.media_type) and _matches_size(payload.size, attachment.size):
            return payload._replace(name=attachment.name)
    if attachment.uri.startswith(("https://", "http://")):
        return Payload(attachment.media_type, url=attachment.uri, name=attachment.name)
    return None


def _matches_type(found: str, wanted: str) -> bool:
    return found == wanted or wanted in ("", "file", found.partition("/")[0])


def _matches_size(found: int, told: int | None) -> bool:
    """Readers reckon it from the length of the base64, some with its padding."""
    return told is None or abs(found - told) <= 2


# ── within a tool's result ────────────────────────────────────────────────────────────────────────


def split_output(output: Json, among: Sequence[Payload]) -> list[str | Payload]:
    """A result as words and pictures. What is neither is spelled as JSON, as the model will have read it."""
    if output is None or output == "":
        return []
    if isinstance(output, list) and output and all(map(_is_content_block, output)):
        return [_parse_block(block, among) for block in output]
    return [output if isinstance(output, str) else json_text(output)]


def _is_content_block(block: Json) -> bool:
    return isinstance(block, str) or bool(as_str(as_dict(block).get("type")))


def _parse_block(block: Json, among: Sequence[Payload]) -> str | Payload:
    if isinstance(block, str):
        return block
    told = as_dict(block)
    kind = as_str(told.get("type"))
    if kind in ("text", "input_text", "output_text") and isinstance(told.get("text"), str):
        return as_str(told["text"])
    if kind in ("image", "input_image"):
        source = as_dict(told.get("source")) or told
        shown = next(find_payloads(block), None) or _match_image(source, among)
        return shown or json_text({name: value for name, value in told.items() if name not in ("source", "data")})
    return json_text(block)


def _match_image(source: Mapping[str, Json], among: Sequence[Payload]) -> Payload | None:
    """A reader leaves the bytes in the record and tells only how many there were."""
    size, kind = source.get("size"), as_str(source.get("media_type")) or "image"
    told = Attachment(kind, size=size if isinstance(size, int) else None)
    return match_payload(told, [payload for payload in among if payload.is_image])
