"""A query told back in words, so that a person sees what is looked for before wondering at what is found. Pure."""

from __future__ import annotations

from datetime import datetime

from store.search.query import Atom, Filter, Query, Term, parse_date

_STATE_PHRASES = {
    "error": "with failed calls",
    "pinned": "pinned",
    "archived": "archived",
    "fork": "a fork",
    "delegate": "done for another",
    "live": "going on now",
    "gone": "gone from its source",
    "expiring": "soon deleted by its agent",
}
_FILTER_PHRASES = {
    "agent": ("agent {}", "agent {}…"),
    "model": ("model {}", "model with {}"),
    "cwd": ("in {}", "in a folder with {}"),
    "tool": ("called {}", "called {}…"),
    "role": ("said by {}", "said by {}"),
    "tag": ("tagged {}", "tagged {}…"),
    "has": ("with a {}", "with a {}"),
}
"""What is meant exactly, and what else."""


def explain_query(query: Query, now: datetime) -> str:
    """`“upload” or “download”, not “draft”, agent claude…, since Sun 15 Nov 2026`: each comma is an "and"."""
    return ", ".join(" or ".join(_format_atom(one, now) for one in group) for group in query.groups)


def explain_corrections(query: Query) -> str:
    """`Showing “migration”; nothing for “migratoin”.`, where something else was looked for than what was typed."""
    if not query.corrections:
        return ""
    typed, shown = (", ".join(f"“{word}”" for word in words) for words in zip(*query.corrections, strict=True))
    return f"Showing {shown}; nothing for {typed}."


def _format_atom(one: Atom, now: datetime) -> str:
    told = _format_term(one) if isinstance(one, Term) else _format_filter(one, now)
    return f"not {told}" if one.negated else told


def _format_term(term: Term) -> str:
    told = f"“{term.text}{'…' * term.prefix}”"
    return f"{told} in a title" if term.is_first_letter else told


def _format_filter(given: Filter, now: datetime) -> str:
    match given.name:
        case "is":
            return _STATE_PHRASES[given.value]
        case "before" | "after":
            day = parse_date(given.value, now)
            date = _format_date(day.astimezone()) if day else given.value
            return f"{'before' if given.name == 'before' else 'since'} {date}"
    exactly, roughly = _FILTER_PHRASES[given.name]
    return (exactly if given.exact else roughly).format(given.value)


def _format_date(day: datetime) -> str:
    told = f"{day:%a} {day.day} {day:%b %Y}"
    return told if day.hour == day.minute == 0 else f"{told} {day:%H:%M}"
