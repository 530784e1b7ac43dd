"""This module explains a query in words, so that a person sees how it was understood. It is pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from store.search.query import WEEKDAYS, Atom, Days, Filter, Hour, Query, Term, parse_date, parse_days, parse_hour

_STATE_PHRASES = {
    "error": "with failed calls",
    "pinned": "pinned",
    "archived": "archived",
    "trashed": "in the trash",
    "fork": "a fork",
    "delegate": "a sub-agent",
    "live": "changed just now",
    "working": "working",
    "waiting": "waiting for you",
    "idle": "idle",
    "ended": "ended",
    "gone": "gone from its source",
    "expiring": "deleted by its agent soon",
    "shared": "shared with your team",
    "disputed": "changed by two people at once",
}
_FILTER_PHRASES = {
    "agent": ("agent {}", "agent {}…"),
    "model": ("model {}", "model with {}"),
    "cwd": ("in {}", "in a folder with {}"),
    "user": ("with the user {}", "with a user like {}"),
    "channel": ("on the channel {}", "on the channel {}…"),
    "owner": ("shared by {}", "shared by {}…"),
    "machine": ("from the machine {}", "from the machine {}…"),
    "tool": ("called {}", "called {}…"),
    "role": ("said by {}", "said by {}"),
    "tag": ("tagged {}", "tagged {}…"),
    "has": ("with a {}", "with a {}"),
}
"""Holds two phrases for each filter: one for an exact value, one for any other."""

_WITHOUT_PHRASES = {"model": "without a model", "cwd": "without a folder", "tool": "called a tool without a name"}


def explain_query(query: Query, now: datetime) -> str:
    """Return a phrase such as `“upload” or “download”, not “draft”, agent claude…, since Sun 15 Nov 2026`.

    A comma means "and".
    """
    return ", ".join(" or ".join(_format_atom(atom, now) for atom in group) for group in query.groups)


def explain_corrections(query: Query, *, is_in_tools: bool = False) -> str:
    """Return a sentence such as `Showing “migration”; nothing for “migratoin”.`, or nothing without corrections.

    `is_in_tools` says that the words as they were typed are found in tool calls.
    """
    if not query.corrections:
        return ""
    typed, shown = (", ".join(f"“{word}”" for word in words) for words in zip(*query.corrections, strict=True))
    return (
        f"Showing {shown}; {typed} is only in tool output." if is_in_tools else f"Showing {shown}; nothing for {typed}."
    )


def _format_atom(atom: Atom, now: datetime) -> str:
    phrase = _format_term(atom) if isinstance(atom, Term) else _format_filter(atom, now)
    return f"not {phrase}" if atom.negated else phrase


def _format_term(term: Term) -> str:
    phrase = f"“{term.text}{'…' * term.prefix}”"
    return f"{phrase} in a title" if term.is_first_letter else phrase


def _format_filter(atom: Filter, now: datetime) -> str:
    match atom.name:
        case "is":
            return _STATE_PHRASES[atom.value]
        case "before" | "after":
            moment = parse_date(atom.value, now)
            date = _format_date(moment.astimezone()) if moment else atom.value
            return f"{'before' if atom.name == 'before' else 'since'} {date}"
        case "day":
            return f"active {_format_days(parse_days(atom.value, now)) or atom.value}"
        case "hour":
            return _format_hour(parse_hour(atom.value)) or atom.value
    if not atom.value:
        return _WITHOUT_PHRASES[atom.name]
    exact_phrase, other_phrase = _FILTER_PHRASES[atom.name]
    return (exact_phrase if atom.exact else other_phrase).format(atom.value)


def _format_date(moment: datetime) -> str:
    date = f"{moment:%a} {moment.day} {moment:%b %Y}"
    return date if moment.hour == moment.minute == 0 else f"{date} {moment:%H:%M}"


def _format_days(days: Days | None) -> str:
    if days is None:
        return ""
    first, last = (_format_date(day.astimezone()) for day in (days.start, days.end - timedelta(days=1)))
    return f"on {first}" if first == last else f"from {first} to {last}"


def _format_hour(hour: Hour | None) -> str:
    if hour is None:
        return ""
    when = f"from {hour.hour:02}:00 to {(hour.hour + 1) % 24:02}:00"
    return when if hour.weekday is None else f"{WEEKDAYS[hour.weekday].capitalize()}s {when}"
