"""Tests which paths and addresses are found in a text, and what is said about an address before it is opened."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.text.links import MAX_SEARCHED_CHARACTERS, Link, find_links
from store.text.web_address import MAX_ADDRESS_CHARACTERS, examine_address, is_safe_address


def found(text: str) -> list[Link]:
    return list(find_links(text))


def address(text: str) -> Link:
    return Link(text, is_address=True)


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("see src/upload.py:41.", Link("src/upload.py", 41)),
        ("src/upload.py:41:7: error: no", Link("src/upload.py", 41, 7)),
        ('File "/srv/app/main.py", line 12, in <module>', Link("/srv/app/main.py", 12)),
        ("at src/Main.cs(12,5)", Link("src/Main.cs", 12)),
        ("docs/a.md#L3", Link("docs/a.md", 3)),
        ("~/notes.txt", Link("~/notes.txt")),
        ("in ./run.sh, please", Link("./run.sh")),
        ("../other/x.py", Link("../other/x.py")),
        ("`README.md`", Link("README.md")),
        ("--file=src/a.py", Link("src/a.py")),
        ("+++ b/src/a.py", Link("b/src/a.py")),
        ("file:///srv/a%20b.txt", Link("/srv/a b.txt")),
        ("file://localhost/srv/a.txt", Link("/srv/a.txt")),
        ("See https://example.com/a_(b).", address("https://example.com/a_(b)")),
        ("[here](https://example.com/x)", address("https://example.com/x")),
        ("**https://example.com**", address("https://example.com")),
        ("https://example.com/a。", address("https://example.com/a")),
    ],
)
def test_a_link_is_found(text: str, link: Link) -> None:
    assert found(text) == [link]


@pytest.mark.parametrize(
    "text", ["nothing here", "javascript:alert(1)", "file://server/share/x", "ftp://example.com/x", "1 / 2"]
)
def test_other_text_is_no_link(text: str) -> None:
    assert not [link for link in found(text) if link.is_certain]


@pytest.mark.parametrize("text", ["and/or", "example.com", "e.g", "3.11.7", "TypeError.x"])
def test_a_doubtful_path_is_one_only_if_it_exists(text: str) -> None:
    assert [link.is_certain for link in found(text)] == [False]


def test_the_address_behind_a_link_is_found_next_to_the_one_that_is_shown() -> None:
    assert found("[https://good.example](https://evil.example)") == [
        address("https://good.example"),
        address("https://evil.example"),
    ]


def test_a_long_text_takes_no_longer_than_a_short_one() -> None:
    for text in ("a/" * 500_000, "a." * 500_000, "." * 1_000_000, "https://" * 200_000, "((((" * 300_000):
        found(text)


# ── addresses ─────────────────────────────────────────────────────────────────────────────────────


def test_an_ordinary_address_has_no_warning() -> None:
    examined = examine_address("https://example.com:8080/a?b=c#d")
    assert examined == ("https://example.com:8080/a?b=c#d", "example.com", (), "")


@pytest.mark.parametrize(
    ("text", "host", "warning"),
    [
        ("https://example.com@evil.example/x", "evil.example", "The host is evil.example."),
        ("https://аpple.com/", "xn--pple-43d.com", "several scripts: Cyrillic, Latin"),
        ("https://xn--pple-43d.com/", "xn--pple-43d.com", "looks like аpple.com"),
        ("https://ｅxample.com/", "example.com", "unusual letters. It is example.com"),
        ("https://example.com/" + "x" * 300, "example.com", "very long: 320 characters"),
        ("https://example.com/straße", "example.com", "not ASCII"),
    ],
)
def test_what_is_unusual_about_an_address_is_said(text: str, host: str, warning: str) -> None:
    examined = examine_address(text)
    assert examined.host == host
    assert any(warning in said for said in examined.warnings), examined.warnings
    assert examined.address.isascii()
    assert not is_safe_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "javascript:alert(1)",
        "file:///etc/passwd",
        "-https://example.com",
        "https://example.com/\x1b]52;c;x",
        "https://example.com/\u202egnp.exe",
        "https://example.com/\u200bx",
        "https://example.com/a b",
        "https://",
        "https://--evil/",
        "https://[::1",
        "https://example.com:99999999/",
        "https://example.com/" + "x" * MAX_ADDRESS_CHARACTERS,
    ],
)
def test_an_address_is_refused_with_a_reason(text: str) -> None:
    examined = examine_address(text)
    assert not examined.address
    assert examined.refusal.endswith(".")
    assert not is_safe_address(text)


@pytest.mark.parametrize("end", [".", ")", "]", ").", "!?"])
def test_an_address_that_ends_in_endless_punctuation_is_found_at_once(end: str) -> None:
    (link,) = find_links("https://example.com/a" + end * (MAX_SEARCHED_CHARACTERS // 4))
    assert link.target == "https://example.com/a"


@given(st.text("a.)(]['", max_size=12).filter(lambda rest: "](" not in rest))
def test_punctuation_is_taken_off_one_by_one(rest: str) -> None:
    expected, opening = f"https://a/{rest}", {")": "(", "]": "["}
    while (end := expected[-1]) in ".'" or expected.count(end) > expected.count(opening.get(end, end)):
        expected = expected[:-1]
    assert next(find_links(f"https://a/{rest}")).target == expected
