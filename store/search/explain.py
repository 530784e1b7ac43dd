"""A query told back in words, so that a person sees what is looked for before wondering at what is found. Pure."""

from __future__ import annotations

from datetime import datetime

from store.search.query import Atom, Filter, Query, Term, day_of

_STATES = {
    "error": "with failed calls",
    "pinned": "pinned",
    "archived": "archived",
    "fork": "a fork",
    "delegate": "done for another",
    "live": "going on now",
    "gone": "gone from its source",
    "expiring": "soon deleted by its agent",
}
_NAMED = {
    "agent": ("agent {}", "agent {}…"),
    "model": ("model {}", "model with {}"),
    "cwd": ("in {}", "in a folder with {}"),
    "tool": ("called {}", "called {}…"),
    "role": ("said by {}", "said by {}"),
    "tag": ("tagged {}", "tagged {}…"),
    "has": ("with a {}", "with a {}"),
}
"""What is meant exactly, and what else."""


def understood(query: Query, now: datetime) -> str:
    """`“upload” or “download”, not “draft”, agent claude…, since Sun 15 Nov 2026`: each comma is an "and"."""
    return ", ".join(" or ".join(_atom(one, now) for one in group) for group in query.groups)


def instead(query: Query) -> str:
    """`Showing “migration”; nothing for “migratoin”.`, where something else was looked for than what was typed."""
    if not query.instead:
        return ""
    typed, shown = (", ".join(f"“{word}”" for word in words) for words in zip(*query.instead, strict=True))
    return f"Showing {shown}; nothing for {typed}."


def _atom(one: Atom, now: datetime) -> str:
    told = _term(one) if isinstance(one, Term) else _filter(one, now)
    return f"not {told}" if one.negated else told


def _term(term: Term) -> str:
    told = f"“{term.text}{'…' * term.prefix}”"
    return f"{told} in a title" if term.begun else told


def _filter(given: Filter, now: datetime) -> str:
    match given.name:
        case "is":
            return _STATES[given.value]
        case "before" | "after":
            day = day_of(given.value, now)
            return f"{'before' if given.name == 'before' else 'since'} {_day(day.astimezone()) if day else given.value}"
    exactly, roughly = _NAMED[given.name]
    return (exactly if given.exact else roughly).format(given.value)


def _day(day: datetime) -> str:
    told = f"{day:%a} {day.day} {day:%b %Y}"
    return told if day.hour == day.minute == 0 else f"{told} {day:%H:%M}"
