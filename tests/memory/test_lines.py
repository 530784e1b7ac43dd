"""Checks how a memory file is split into facts, and how facts are compared."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from store.memory.imports import find_imports
from store.memory.lines import find_key, normalize, read_front_matter, split_lines

TEXT = """---
paths: src/**
---
# Rules

Use tabs.
- Run **pytest** first
  and only then push
- [ ] Ask before deleting.
1. One

<!-- a comment
- not a fact -->
## Commands
```sh
make test

```
***
| a | b |
|---|---|
"""


def test_lines_and_bullets_are_facts_and_the_rest_is_not() -> None:
    lines = split_lines("/f", TEXT)
    assert [(line.number, line.kind, line.heading, line.text) for line in lines] == [
        (6, "line", "Rules", "Use tabs."),
        (7, "bullet", "Rules", "Run **pytest** first and only then push"),
        (9, "bullet", "Rules", "Ask before deleting."),
        (10, "bullet", "Rules", "One"),
        (16, "code", "Commands", "make test"),
        (20, "line", "Commands", "| a | b |"),
    ]
    assert lines[1].last_number == 8


def test_the_identity_is_the_file_and_the_normalised_text() -> None:
    (first,) = split_lines("/f", "- Use **tabs**.")
    (moved,) = split_lines("/f", "\n\n* use  tabs\n")
    (other,) = split_lines("/g", "- Use **tabs**.")
    assert first.id == moved.id
    assert first.id != other.id


def test_nested_bullets_are_facts_of_their_own() -> None:
    assert [line.text for line in split_lines("/f", "- a\n  - b\n    c\n  d\n")] == ["a", "b c", "d"]


def test_keys_are_found_and_addresses_are_none() -> None:
    assert find_key("**Database**: PostgreSQL 16.") == ("database", "postgresql 16")
    assert find_key("https://example.org/a: b") is None
    assert find_key("See also:") is None


def test_front_matter_has_values_and_lists() -> None:
    assert read_front_matter('---\npaths:\n  - "a/**"\n  - b\napplyTo: "**"\n---\ntext') == {
        "paths": "a/**,b",
        "applyTo": "**",
    }
    assert read_front_matter("text\n---\na: b\n---") == {}


def test_imports_are_found_outside_code_and_comments() -> None:
    text = (
        "See @docs/a.md and @~/b.md or me@example.org.\n`@no.md`\n```\n@no.md\n```\n<!-- @no.md -->\n@with\\ space.md"
    )
    assert list(find_imports(text)) == ["docs/a.md", "~/b.md", "with space.md"]


@given(st.text(alphabet="-*#`~<!> \n\tab:@", max_size=300))
def test_any_text_can_be_split(text: str) -> None:
    lines = split_lines("/f", text)
    assert all(line.text.strip() and 0 < line.number <= line.last_number <= text.count("\n") + 1 for line in lines)
    assert [line.number for line in lines] == sorted(line.number for line in lines)
    assert all(normalize(normalize(line.text)) == normalize(line.text) for line in lines)
    list(find_imports(text))
