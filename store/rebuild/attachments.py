"""This module finds the contents of attachments in records.

The store keeps no files of its own. The bytes are in the record, in the place and the encoding that the agent chose. A
file that is only named is never opened, because the name comes from a foreign program.
"""

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
"""Limits how deep JSON is read that is text within JSON."""


def find_payloads(record: Json) -> Iterator[Payload]:
    """Yield everything in a record that could be an attachment, in order."""
    for fields in iter_dicts(record):
        for value in fields.values():
            matched = _DATA_URL.fullmatch(value) if isinstance(value, str) and value.startswith("data:") else None
            if matched and (data := _normalize_base64(matched[2])):
                yield Payload(matched[1], data)
        kind = next((fields[name] for name in _TYPE_FIELDS if "/" in as_str(fields.get(name))), "")
        if kind and (data := next(filter(None, (_read_base64(fields.get(name)) for name in _DATA_FIELDS)), "")):
            yield Payload(kind, data)
        name = next((fields[name] for name in _NAME_FIELDS if as_str(fields.get(name))), "")
        text = next((fields[field] for field in _TEXT_FIELDS if as_str(fields.get(field))), "")
        if name and text:
            yield Payload("text/plain", text=text, name=name)


def iter_dicts(value: Json, levels: int = _MAX_DEPTH, nested: int = _MAX_NESTED_JSON) -> Iterator[Mapping[str, Json]]:
    """Yield every object in a record, also in JSON that a database column holds as text."""
    if not levels:
        return
    if isinstance(value, Mapping):
        yield value
        for item in value.values():
            yield from iter_dicts(item, levels - 1, nested)
    elif isinstance(value, list):
        for item in value:
            yield from iter_dicts(item, levels - 1, nested)
    elif isinstance(value, str) and nested and value[:1] in ("{", "[") and value[-1:] in ("}", "]"):
        yield from iter_dicts(decode_or_none(value), levels - 1, nested - 1)


def _read_base64(value: Json) -> str:
    return _normalize_base64(as_str(value) or as_str(as_dict(value).get("$base64")))


def _normalize_base64(text: str) -> str:
    """Return the text in the standard alphabet with padding, or an empty string if it is not base64."""
    data = text.translate(_URL_SAFE).rstrip("=")
    data += "=" * (-len(data) % 4)
    try:
        return data if b64decode(data, validate=True) else ""
    except (NotBase64, ValueError):
        return ""


def match_payload(attachment: Attachment, payloads: Sequence[Payload]) -> Payload | None:
    """Find the payload of an attachment, by size and media type where they are known, and by name if it is text."""
    for payload in payloads:
        if payload.text is not None:
            if payload.name == attachment.name:
                return payload
        elif _matches_type(payload.media_type, attachment.media_type) and _matches_size(payload.size, attachment.size):
            return payload._replace(name=attachment.name)
    if attachment.uri.startswith(("https://", "http://")):
        return Payload(attachment.media_type, url=attachment.uri, name=attachment.name)
    return None


def _matches_type(found: str, expected: str) -> bool:
    return found == expected or expected in ("", "file", found.partition("/")[0])


def _matches_size(found: int, expected: int | None) -> bool:
    """Compare sizes. Readers compute them from the length of the base64, some with its padding."""
    return expected is None or abs(found - expected) <= 2


# ── results of tools ──────────────────────────────────────────────────────────────────────────────


def split_output(output: Json, payloads: Sequence[Payload]) -> list[str | Payload]:
    """Split a result into texts and images. Everything else becomes JSON text, as the model will have read it."""
    if output is None or output == "":
        return []
    if isinstance(output, list) and output and all(map(_is_content_block, output)):
        return [_parse_block(block, payloads) for block in output]
    return [output if isinstance(output, str) else json_text(output)]


def _is_content_block(block: Json) -> bool:
    return isinstance(block, str) or bool(as_str(as_dict(block).get("type")))


def _parse_block(block: Json, payloads: Sequence[Payload]) -> str | Payload:
    if isinstance(block, str):
        return block
    fields = as_dict(block)
    kind = as_str(fields.get("type"))
    if kind in ("text", "input_text", "output_text") and isinstance(fields.get("text"), str):
        return as_str(fields["text"])
    if kind in ("image", "input_image"):
        source = as_dict(fields.get("source")) or fields
        payload = next(find_payloads(block), None) or _match_image(source, payloads)
        return payload or json_text({name: value for name, value in fields.items() if name not in ("source", "data")})
    return json_text(block)


def _match_image(source: Mapping[str, Json], payloads: Sequence[Payload]) -> Payload | None:
    """Find an image by its size. Readers leave the bytes in the record and keep only their number."""
    size, kind = source.get("size"), as_str(source.get("media_type")) or "image"
    attachment = Attachment(kind, size=size if isinstance(size, int) else None)
    return match_payload(attachment, [payload for payload in payloads if payload.is_image])
