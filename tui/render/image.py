"""A picture in a terminal: two pixels to a cell, one above the other, in as many colours as the terminal has."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Iterator

from textual.content import Content

from store.model.entry import Json

MAX_BASE64_CHARACTERS = 64 * 1024 * 1024
MAX_PIXELS = 50_000_000
"""A file of a few bytes can ask for any number of them."""

_MAGIC_PREFIXES = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"RIFF", b"BM")


def find_pictures(value: Json) -> Iterator[bytes]:
    """Those that stand in a record as base64, alone or in a `data:` URL, in the order in which they stand there."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, dict):
            waiting += reversed(found.values())
        elif isinstance(found, list):
            waiting += reversed(found)
        elif isinstance(found, str) and 64 <= len(found) <= MAX_BASE64_CHARACTERS:
            data = _decode_picture(found)
            if data.startswith(_MAGIC_PREFIXES):
                yield data


def _decode_picture(text: str) -> bytes:
    body = text.partition(";base64,")[2] if text.startswith("data:") else text
    try:
        # The beginning tells what it is, and whether it is base64 at all.
        if not base64.b64decode(body[:64], validate=True).startswith(_MAGIC_PREFIXES):
            return b""
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError):
        return b""


def render_picture(data: bytes, width: int, height: int) -> list[Content]:
    """Within so many cells. Raises ValueError with a sentence for what cannot be shown."""
    from PIL import Image, UnidentifiedImageError

    Image.MAX_IMAGE_PIXELS = MAX_PIXELS
    try:
        with Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError("The picture is larger than can be shown here.")
            image.draft("RGB", (width, height * 2))
            shown = image.convert("RGB")
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError, EOFError):
        raise ValueError("The picture is damaged, or of a kind that cannot be shown.") from None
    shown.thumbnail((width, height * 2))
    return list(_render_lines(shown.width, shown.height, shown.tobytes()))


def _render_lines(width: int, height: int, pixels: bytes) -> Iterator[Content]:
    for y in range(0, height, 2):
        cells = [_render_cell(pixels, width, x, y, last=y + 1 == height) for x in range(width)]
        yield Content.assemble(*cells)


def _render_cell(pixels: bytes, width: int, x: int, y: int, *, last: bool) -> tuple[str, str]:
    above = _pixel_color(pixels, (y * width + x) * 3)
    return "▀", above if last else f"{above} on {_pixel_color(pixels, ((y + 1) * width + x) * 3)}"


def _pixel_color(pixels: bytes, at: int) -> str:
    return f"#{pixels[at : at + 3].hex()}"
