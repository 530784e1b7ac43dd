"""This module has the DDL of the tables for leaks and redactions. It belongs to the migrations, and is never edited."""

from __future__ import annotations

# What is known about leaks. A value is never stored, only its HMAC under the key. `start` and `length` are the span in
# the text of the field, or in the file or record. Progress and files name the rules by which they were scanned.
LEAKS = """
create table leaks (
    fingerprint text primary key,
    rule text not null,
    tier text not null,
    ignored text not null default '',
    rotated_at text not null default ''
) strict, without rowid

create table leak_places (
    key integer primary key,
    fingerprint text not null references leaks(fingerprint),
    session integer references sessions(key),
    entry_seq integer,
    field text not null,
    path text not null,
    line integer,
    start integer not null,
    length integer not null,
    at text not null
) strict

create unique index leak_places_once on leak_places(
    fingerprint, coalesce(session, 0), coalesce(entry_seq, -2), field, path, coalesce(line, 0), start
)

create index leak_places_session on leak_places(session)

create index leak_places_path on leak_places(path) where path != ''

create table leak_progress (
    session integer primary key references sessions(key),
    seq integer not null,
    rules text not null
) strict

create table leak_files (
    path text primary key,
    stamp text not null,
    rules text not null,
    reason text not null
) strict, without rowid

create table leak_key (
    id integer primary key check (id = 1),
    key blob not null
) strict
"""

# What was redacted. The spellings of a value are sealed in `redacted_values` until they are forgotten; the row without
# a fingerprint has the key of sealed backups. A place is a record, a text of our own (its table, column and key as
# JSON), or a file. Its `spans` say where values were. The digests are those of a record or a file before and
# after: a record with either of them is the same record, so a file that still has the value makes no new version.
REDACTIONS = """
create table redactions (
    id integer primary key autoincrement,
    at text not null,
    state text not null check (state in ('running', 'done', 'undoing', 'undone')),
    times integer not null default 0,
    edit integer,
    forgotten integer not null default 0
) strict

create table redacted_values (
    redaction integer not null references redactions(id),
    fingerprint text not null,
    rule text not null,
    sealed blob,
    primary key (redaction, fingerprint)
) strict, without rowid

create table redacted_places (
    key integer primary key,
    redaction integer not null references redactions(id),
    kind text not null check (kind in ('record', 'text', 'file', 'database')),
    target text not null,
    record integer,
    times integer not null default 0,
    spans text not null default '{}',
    original blob,
    redacted blob,
    pending integer not null default 0,
    problem text not null default ''
) strict

create index redacted_places_redaction on redacted_places(redaction)

create index redacted_places_record on redacted_places(record) where record is not null
"""
