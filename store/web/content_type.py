"""This module decides by content what a file is, and whether a web browser may show it.

The name of a file proves nothing, because an agent chose it. A browser shows only plain text, pictures, audio and
video. Everything else is downloaded, because it could run: pages, SVG, PDF, scripts, programs, and what is not known.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from pathlib import PurePosixPath
from typing import NamedTuple

HEAD_SIZE = 65_536
"""Limits how many bytes from the beginning of a file are examined."""

UNKNOWN = "application/octet-stream"
PLAIN_TEXT = "text/plain; charset=utf-8"

# Each signature begins at the start of the file; a dot matches any byte.
_SIGNATURES = [
    (re.compile(signature, re.DOTALL), media_type)
    for signature, media_type in (
        (rb"\x89PNG\r\n\x1a\n", "image/png"),
        (rb"\xff\xd8\xff", "image/jpeg"),
        (rb"GIF8[79]a", "image/gif"),
        (rb"RIFF....WEBP", "image/webp"),
        (rb"\0...ftypavi[fs]", "image/avif"),
        (rb"\0...ftyp", "video/mp4"),
        (rb"\x1aE\xdf\xa3", "video/webm"),
        (rb"OggS", "application/ogg"),
        (rb"RIFF....WAVE", "audio/wav"),
        (rb"ID3[\x02-\x04]\0|\xff[\xf2\xf3\xfa\xfb]", "audio/mpeg"),
        (rb"fLaC", "audio/flac"),
        (rb".{0,1019}%PDF-", "application/pdf"),
        (rb"PK\x03\x04|PK\x05\x06", "application/zip"),
        (rb"\x1f\x8b", "application/gzip"),
        (rb"\x7fELF", "application/x-executable"),
        (rb"MZ.*PE\0\0", "application/vnd.microsoft.portable-executable"),
        (rb"\0asm", "application/wasm"),
        (rb"SQLite format 3\0", "application/vnd.sqlite3"),
    )
]
_SHOWN_FAMILIES = ("image", "audio", "video")

# Markup is recognised wherever it begins, because a browser would also find it after other text.
_MARKUP = [
    (re.compile(pattern, re.IGNORECASE), media_type)
    for pattern, media_type in (
        (rb"<!doctype\s+html|<html\b", "text/html"),
        (rb"<(\w+:)?svg\b", "image/svg+xml"),
        (rb"\A\s*<\?xml\b", "application/xml"),
        (rb"\A\s*<|<(\w+:)?script\b|<iframe\b", "text/html"),
        (rb"\A#!", "text/x-script"),
    )
]
_BINARY_BYTES = re.compile(rb"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_HARMLESS_SUFFIXES = frozenset(
    " .txt .text .md .markdown .rst .log .csv .tsv .json .jsonl .yaml .yml .toml .diff .patch"
    " .png .jpg .jpeg .gif .webp .avif .mp4 .m4a .webm .wav .mp3 .flac".split(" ")
)
"""Lists the endings of file names that no system runs, and no ending at all."""


class ContentType(NamedTuple):
    media_type: str
    is_shown: bool
    "Says whether a browser may show the file. Otherwise it is downloaded."


def find_content_type(head: bytes, filename: str, *, executable: bool = False) -> ContentType:
    """Return the type of a file by its first bytes. Its name and its mode can only forbid that it is shown."""
    media_type = _find_signature(head) or _find_text_type(head)
    family = media_type.partition("/")[0]
    is_inert = media_type == PLAIN_TEXT or (family in _SHOWN_FAMILIES and media_type != "image/svg+xml")
    is_harmless_name = PurePosixPath(filename).suffix.lower() in _HARMLESS_SUFFIXES
    return ContentType(media_type, is_inert and is_harmless_name and not executable)


def _find_signature(head: bytes) -> str:
    return next((media_type for signature, media_type in _SIGNATURES if signature.match(head)), "")


def _find_text_type(head: bytes) -> str:
    text = head.removeprefix(_BYTE_ORDER_MARK)
    if _BINARY_BYTES.search(text) or not _is_utf8(text):
        return UNKNOWN
    return next((media_type for pattern, media_type in _MARKUP if pattern.search(text)), PLAIN_TEXT)


def _is_utf8(text: bytes) -> bool:
    """Return whether bytes are UTF-8. The last character may be cut, because only the head of a file is examined."""
    try:
        getincrementaldecoder("utf-8")().decode(text, final=len(text) < HEAD_SIZE - len(_BYTE_ORDER_MARK))
    except UnicodeDecodeError:
        return False
    return True
