"""This module has the DDL of what a store knows of its team."""

TEAM = """
create table team (
    id integer primary key check (id = 1),
    locator text not null,
    team text not null,
    name text not null,
    machine text not null,
    keys blob not null,
    password blob,
    pushed integer not null default 0,
    joined_at text not null
) strict

create table team_machines (
    machine text primary key,
    name text not null,
    public blob not null,
    trusted_at text,
    has_left integer not null default 0,
    pulled integer not null default 0,
    last_seq integer not null default 0
) strict, without rowid

create table team_shares (
    id text primary key,
    session text,
    key blob,
    audience text not null default '["*"]',
    readers text not null default '["*"]',
    policy text not null default 'refuse',
    is_ruled integer not null default 0,
    sent_seq integer not null default -2,
    sent_entry integer,
    sent_fields text not null default '',
    applied integer not null default 0,
    held text not null default '',
    ended_at text
) strict, without rowid

create index team_shares_session on team_shares(session)

create table team_readers (
    share text not null,
    machine text not null,
    primary key (share, machine)
) strict, without rowid

create table team_outbox (
    seq integer primary key,
    kind text not null,
    share text not null,
    audience text not null,
    digest blob not null,
    signature blob not null,
    body blob not null
) strict

create table team_values (
    share text not null,
    name text not null,
    value text not null,
    vector text not null,
    moment text not null,
    primary key (share, name)
) strict, without rowid

create table team_conflicts (
    key integer primary key,
    share text not null,
    name text not null,
    value text not null,
    machine text not null,
    at text not null,
    unique (share, name, value, machine)
) strict

create table team_facts (
    fact integer primary key,
    name text not null unique
) strict

create table team_refused (
    machine text not null,
    seq integer not null,
    reason text not null,
    primary key (machine, seq)
) strict, without rowid

alter table notes add column author text not null default ''

alter table notes add column comment text

create unique index notes_comment on notes(comment)
"""

# The server of a plain team gets texts besides the sealed operations.
PLAIN_TEAM = """
alter table team add column is_plain integer not null default 0

alter table team_outbox add column texts blob
"""

# What a session looked like when its changes were last collected. Most sessions never change, so they are skipped.
COLLECTED_SHARES = """
alter table team_shares add column collected text not null default ''
"""

# Edits that members of the team made elsewhere are in the journal with their authors.
EDIT_AUTHORS = """
alter table edits add column author text not null default ''
"""
