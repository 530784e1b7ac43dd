"""This module prepares what the server of a plain team may read, and the queries that it is asked. It is pure.

Only what was said is sent in clear: titles, prompts and answers. Tool calls, their results and records stay sealed.
Accents and CJK characters are treated as in our own index, so that the server finds the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from store.errors import BadValue
from store.search.query import Query, Term
from store.text.unicode import fold_accents, separate_cjk
from store.text.validate import replace_surrogates

TITLE_SEQ = -1
"""Is the place of the title, before the first entry."""

MAX_TEXT_CHARS = 100_000
"""Limits a text, because PostgreSQL indexes at most one megabyte of words."""

_ROLES = ("user", "assistant")
_CONFIGURATION = "'pg_catalog.simple'"


class PlainText(NamedTuple):
    """Is a text of a session as the server gets it."""

    session: str
    entry: int
    role: str
    at: str
    text: str
    folded: str
    "Is the text without accents. Empty if the text has none."


class ServerQuery(NamedTuple):
    """Is a `tsquery` as an SQL expression, with its values."""

    sql: str
    values: tuple[str, ...]


def title_text(session: str, title: str, at: str) -> PlainText:
    return _make_text(session, TITLE_SEQ, "title", at, title)


def iter_entry_texts(session: str, entries: Iterable[Mapping[str, Any]]) -> Iterator[PlainText]:
    for entry in entries:
        if entry["text"] and entry["role"] in _ROLES and not entry["inherited"]:
            yield _make_text(session, entry["seq"], entry["role"], entry["created_at"], entry["text"])


def _make_text(session: str, seq: int, role: str, at: str, text: str) -> PlainText:
    text = replace_surrogates(text[:MAX_TEXT_CHARS]).replace("\0", " ")
    return PlainText(session, seq, role, at, text, "" if text.isascii() else _fold(text))


def _fold(text: str) -> str:
    return fold_accents(separate_cjk(text))


def build_server_query(query: Query) -> ServerQuery:
    """Return the words and phrases of a query as PostgreSQL searches them. Raise BadValue if it has anything else."""
    terms = [[term for term in group if isinstance(term, Term)] for group in query.groups]
    if len(query.groups) != sum(map(bool, terms)) or sum(map(len, terms)) != sum(map(len, query.groups)):
        raise BadValue("The server of a team searches words and phrases only. Leave out the filters.")
    if not any(term.is_indexed and not term.negated for group in terms for term in group):
        raise BadValue("Add a word to search for.")
    groups = [f"({' || '.join(_write_term(term) for term in group)})" for group in terms]
    return ServerQuery(" && ".join(groups), tuple(_value_of(term) for group in terms for term in group))


def _write_term(term: Term) -> str:
    function = "to_tsquery" if term.prefix else "phraseto_tsquery"
    return f"{'!! ' if term.negated else ''}{function}({_CONFIGURATION}, %s)"


def _value_of(term: Term) -> str:
    text = _fold(replace_surrogates(term.text)).replace("\0", " ")
    return "'" + text.replace("\\", " ").replace("'", "''") + "':*" if term.prefix else text
