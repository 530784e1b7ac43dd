"""This module examines a web address before a person opens it, because a text may show one host and mean another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import quote, urlsplit, urlunsplit

from store.text.sanitize import sanitize

SCHEMES = ("http", "https")
MAX_ADDRESS_CHARACTERS = 8_000
LONG_ADDRESS_CHARACTERS = 200

_SAFE_CHARACTERS = "%/?#[]@!$&'()*+,;=:~-._"
_PUNYCODE = "xn--"
_HOST = re.compile(r"[a-z0-9_]([a-z0-9._-]*[a-z0-9_])?\.?|[0-9a-f:.]+:[0-9a-f:.]*")

_NO_HOST = "This address has no valid host, so it is not opened. Copy it instead."


class WebAddress(NamedTuple):
    """Describes an address as it would be opened, and what a person should know before."""

    address: str
    "Has only ASCII characters. Is empty if the address is refused."
    host: str = ""
    warnings: tuple[str, ...] = ()
    refusal: str = ""


def examine_address(text: str) -> WebAddress:
    """Return what would be opened and what is unusual about it."""
    if refusal := _find_refusal(text):
        return WebAddress("", refusal=refusal)
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
        ascii_host = host if host.isascii() else host.encode("idna").decode()
    except (ValueError, UnicodeError):
        return WebAddress("", refusal=_NO_HOST)
    if not _HOST.fullmatch(ascii_host):
        return WebAddress("", refusal=_NO_HOST)
    user = f"{quote(parts.netloc.rpartition('@')[0], _SAFE_CHARACTERS)}@" if "@" in parts.netloc else ""
    shown_host = f"[{ascii_host}]" if ":" in ascii_host else ascii_host
    netloc = f"{user}{shown_host}{f':{port}' if port is not None else ''}"
    rest = (quote(part, _SAFE_CHARACTERS) for part in (parts.path, parts.query, parts.fragment))
    address = urlunsplit((parts.scheme, netloc, *rest))
    return WebAddress(address, ascii_host, tuple(_find_warnings(text, host, ascii_host, has_user=bool(user))))


def is_safe_address(text: str) -> bool:
    """Whether a terminal may make this text a link: an http address of ASCII characters that hides nothing."""
    if not text.isascii() or len(text) > LONG_ADDRESS_CHARACTERS:
        return False
    examined = examine_address(text)
    return bool(examined.address) and not examined.warnings


def _find_refusal(text: str) -> str:
    if text.partition(":")[0].lower() not in SCHEMES:
        return "Only http and https addresses are opened. Copy it instead."
    if len(text) > MAX_ADDRESS_CHARACTERS:
        return f"This address has {len(text):,} characters, so it is not opened. Copy it instead."
    if sanitize(text) != text or any(character.isspace() for character in text):
        return "This address contains control or hidden characters, so it is not opened. They are shown as marks."
    return ""


def _find_warnings(text: str, host: str, ascii_host: str, *, has_user: bool) -> Iterator[str]:
    if has_user:
        yield f"What stands before the @ is a user name. The host is {ascii_host}."
    decoded = _decode_punycode(ascii_host)
    if decoded != ascii_host:
        yield f"The host {ascii_host} looks like {sanitize(decoded)}. Letters of other scripts can imitate Latin ones."
        scripts = sorted({script for label in decoded.split(".") for script in _find_scripts(label)})
        if len(scripts) > 1:
            yield f"The host mixes letters of several scripts: {', '.join(scripts)}."
    elif host != ascii_host:
        yield f"The host is written with unusual letters. It is {ascii_host}."
    if not text.isascii() and host.isascii():
        yield "The path contains letters that are not ASCII. They are encoded when it is opened."
    if len(text) > LONG_ADDRESS_CHARACTERS:
        yield f"The address is very long: {len(text):,} characters. It may carry data of the conversation."


def _decode_punycode(host: str) -> str:
    """Return a host as a browser may show it."""
    if _PUNYCODE not in host:
        return host
    try:
        return host.encode("ascii").decode("idna")
    except UnicodeError:
        return host


def _find_scripts(label: str) -> set[str]:
    """Return the scripts of the letters of a host's label, e.g. `Latin` and `Cyrillic`."""
    names = (unicodedata.name(letter, "unknown").split()[0] for letter in label if letter.isalpha())
    return {name.capitalize() for name in names}
