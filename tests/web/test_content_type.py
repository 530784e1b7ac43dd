"""These tests check how a file's type is found by its content, and which files a browser may show."""

from __future__ import annotations

import re
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.web.content_type import HEAD_SIZE, PLAIN_TEXT, UNKNOWN, find_content_type


@pytest.mark.parametrize(
    ("head", "media_type"),
    [
        (b"", PLAIN_TEXT),
        (b"plain", PLAIN_TEXT),
        (b"\xef\xbb\xbfwith a mark", PLAIN_TEXT),
        (b"\x1b[31mred\x1b[0m\ttab\r\n", PLAIN_TEXT),
        (b"1 < 2 and x<y", PLAIN_TEXT),
        (b"ID3 tags explained", PLAIN_TEXT),
        ("é".encode() * HEAD_SIZE, PLAIN_TEXT),
        (("x" + "é" * HEAD_SIZE).encode()[:HEAD_SIZE], PLAIN_TEXT),
        ("é".encode()[:1], UNKNOWN),
        ("<html>".encode("utf-16"), UNKNOWN),
        (b"\xff\xfe", UNKNOWN),
        (b"text\0", UNKNOWN),
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg"),
        (b"GIF89a", "image/gif"),
        (b"RIFF\1\2\3\4WEBP", "image/webp"),
        (b"RIFF\n\n\n\nWAVE", "audio/wav"),
        (b"\0\0\0\x20ftypavif", "image/avif"),
        (b"\0\0\0\x20ftypisom", "video/mp4"),
        (b"\x1aE\xdf\xa3", "video/webm"),
        (b"ID3\x03\0", "audio/mpeg"),
        (b"fLaC", "audio/flac"),
        (b"%PDF-1.7", "application/pdf"),
        (b"junk" * 200 + b"%PDF-1.7", "application/pdf"),
        (b"PK\x03\x04", "application/zip"),
        (zlib.compress(b"", wbits=31), "application/gzip"),
        (b"\x7fELF", "application/x-executable"),
        (b"MZ\0\0PE\0\0", "application/vnd.microsoft.portable-executable"),
        (b"\0asm\1\0\0\0", "application/wasm"),
        (b"SQLite format 3\0", "application/vnd.sqlite3"),
        (b"<!DOCTYPE html>", "text/html"),
        (b"words <HTML lang=en>", "text/html"),
        (b" \n\t<b>bold</b>", "text/html"),
        (b"\xef\xbb\xbf<img src=x onerror=alert(1)>", "text/html"),
        (b"words <script src=x>", "text/html"),
        (b"<html><svg/></html>", "text/html"),
        (b"<svg onload=alert(1)>", "image/svg+xml"),
        (b"<!-- c --><x:svg xmlns:x='http://www.w3.org/2000/svg'>", "image/svg+xml"),
        (b"<?xml version='1.0'?><note/>", "application/xml"),
        (b"#!/bin/sh", "text/x-script"),
    ],
)
def test_the_type_is_found_by_content(head: bytes, media_type: str) -> None:
    assert find_content_type(head, "misleading.png").media_type == media_type


@pytest.mark.parametrize("name", ["a.txt", "a.MD", "README", "a.json", "a.b.log", "plot.png", ".hidden"])
def test_plain_text_with_a_harmless_name_is_shown(name: str) -> None:
    assert find_content_type(b"plain", name).is_shown


@pytest.mark.parametrize(
    "name", "a.html a.HTM a.svg a.js a.mjs a.py a.sh a.bat a.ps1 a.hta a.desktop a.txt.exe a.mhtml a.url a.css".split()
)
def test_text_and_pictures_with_the_name_of_something_that_runs_are_not_shown(name: str) -> None:
    assert not find_content_type(b"plain", name).is_shown
    assert not find_content_type(b"GIF89a/*<script>*/", name).is_shown


def test_an_executable_file_is_not_shown() -> None:
    assert find_content_type(b"plain", "a.txt").is_shown
    assert not find_content_type(b"plain", "a.txt", executable=True).is_shown


@given(head=st.binary(max_size=300), name=st.text(max_size=20))
def test_only_inert_types_are_ever_shown(head: bytes, name: str) -> None:
    found = find_content_type(head, name)
    inert = found.media_type == PLAIN_TEXT or re.match(r"(image|audio|video)/(?!svg)", found.media_type)
    assert inert or not found.is_shown


@given(before=st.binary(max_size=50), after=st.binary(max_size=50))
def test_markup_is_never_shown_as_text(before: bytes, after: bytes) -> None:
    found = find_content_type(before + b"<script>" + after, "a.txt")
    assert found.media_type != PLAIN_TEXT
