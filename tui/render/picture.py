"""This module renders pictures in a terminal. Each cell shows two pixels, one above the other."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterator

from textual.content import Content

from store.model.entry import Json

MAX_BASE64_CHARACTERS = 64 * 1024 * 1024
MAX_PIXELS = 50_000_000
"""Limits the pixels to decode, because a file of a few bytes can declare any size."""

_MAGIC_PREFIXES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")


def find_pictures(value: Json) -> Iterator[bytes]:
    """Yield the pictures that a record holds as base64, bare or in a `data:` URL, in the order of the record."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending += reversed(item.values())
        elif isinstance(item, list):
            pending += reversed(item)
        elif isinstance(item, str) and 64 <= len(item) <= MAX_BASE64_CHARACTERS:
            data = _decode_picture(item)
            if data.startswith(_MAGIC_PREFIXES):
                yield data


def _decode_picture(text: str) -> bytes:
    body = text.partition(";base64,")[2] if text.startswith("data:") else text
    try:
        # The first bytes show whether this is base64, and whether it is a picture.
        if not base64.b64decode(body[:64], validate=True).startswith(_MAGIC_PREFIXES):
            return b""
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return b""


def render_picture(data: bytes, width: int, height: int) -> list[Content]:
    """Return the picture as lines that fit into the given cells.

    Raises ValueError with a message for the person if the picture cannot be shown.
    """
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError("The picture is too large to show.")
            image.draft("RGB", (width, height * 2))
            rgb = image.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, EOFError):
        raise ValueError("The picture is damaged or has an unsupported format.") from None
    rgb.thumbnail((width, height * 2))
    return list(_render_lines(rgb.width, rgb.height, rgb.tobytes()))


def _render_lines(width: int, height: int, pixels: bytes) -> Iterator[Content]:
    for y in range(0, height, 2):
        cells = [_render_cell(pixels, width, x, y, last=y + 1 == height) for x in range(width)]
        yield Content.assemble(*cells)


def _render_cell(pixels: bytes, width: int, x: int, y: int, *, last: bool) -> tuple[str, str]:
    above = _pixel_color(pixels, (y * width + x) * 3)
    return "▀", above if last else f"{above} on {_pixel_color(pixels, ((y + 1) * width + x) * 3)}"


def _pixel_color(pixels: bytes, offset: int) -> str:
    return f"#{pixels[offset : offset + 3].hex()}"
