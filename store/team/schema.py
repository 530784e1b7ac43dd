"""This module creates the tables of a team in PostgreSQL, in numbered migrations. It is the only file with their DDL.

Whoever can log in sees who shared what with whom, when and how much. Bodies are sealed; a plain team has texts besides,
which its server can search. Row-level security is the second wall: a member with a role of its own sees only the rows
that are meant for it, and writes only its own.
"""

from __future__ import annotations

SCHEMA = "backscroll_team"

TABLES = f"""
create schema {SCHEMA};

create table {SCHEMA}.migrations (
    number integer primary key,
    at timestamptz not null default now()
);

create table {SCHEMA}.team (
    id text primary key,
    created_at timestamptz not null default now()
);

create table {SCHEMA}.machines (
    machine text primary key,
    name text not null,
    public bytea not null,
    role name not null default current_user,
    joined_at timestamptz not null default now(),
    left_at timestamptz
);

create table {SCHEMA}.operations (
    machine text not null references {SCHEMA}.machines(machine),
    seq bigint not null,
    kind text not null,
    share text not null,
    audience text[] not null,
    digest bytea not null,
    signature bytea not null,
    body bytea not null,
    at timestamptz not null default now(),
    primary key (machine, seq)
);

alter table {SCHEMA}.operations alter column body set storage external;

create index operations_share on {SCHEMA}.operations(share, machine, seq);

create function {SCHEMA}.own_machines() returns text[] language sql stable as $$
    select coalesce(array_agg(machine), '{{}}') from {SCHEMA}.machines where role = current_user
$$;

alter table {SCHEMA}.operations enable row level security;

alter table {SCHEMA}.operations force row level security;

create policy operations_read on {SCHEMA}.operations for select using (
    machine = any ({SCHEMA}.own_machines())
    or audience && {SCHEMA}.own_machines()
    or ('*' = any (audience) and cardinality({SCHEMA}.own_machines()) > 0)
);

create policy operations_add on {SCHEMA}.operations for insert with check (machine = any ({SCHEMA}.own_machines()));

create policy operations_change on {SCHEMA}.operations for update using (machine = any ({SCHEMA}.own_machines()));

alter table {SCHEMA}.machines enable row level security;

alter table {SCHEMA}.machines force row level security;

create policy machines_read on {SCHEMA}.machines for select using (true);

create policy machines_add on {SCHEMA}.machines for insert with check (role = current_user);

create policy machines_change on {SCHEMA}.machines for update using (role = current_user);

grant usage on schema {SCHEMA} to public;

grant select on {SCHEMA}.migrations, {SCHEMA}.team to public;

grant select, insert on {SCHEMA}.machines, {SCHEMA}.operations to public;

grant update (name, left_at) on {SCHEMA}.machines to public;

grant update (audience, body) on {SCHEMA}.operations to public;
"""

# The policy of the first migration asked for one's own machines again for every row.
PLAIN_TEAM = f"""
alter table {SCHEMA}.team add column is_plain boolean not null default false;

alter policy operations_read on {SCHEMA}.operations using (
    machine = any ((select {SCHEMA}.own_machines())::text[])
    or audience && (select {SCHEMA}.own_machines())
    or ('*' = any (audience) and cardinality((select {SCHEMA}.own_machines())) > 0)
);

create table {SCHEMA}.texts (
    share text not null,
    entry bigint not null,
    machine text not null references {SCHEMA}.machines(machine),
    audience text[] not null,
    session text not null,
    role text not null,
    at text not null,
    text text not null,
    words tsvector not null,
    primary key (share, entry),
    check (starts_with(share, machine || '/'))
);

create index texts_words on {SCHEMA}.texts using gin(words);

alter table {SCHEMA}.texts enable row level security;

alter table {SCHEMA}.texts force row level security;

create policy texts_read on {SCHEMA}.texts for select using (
    machine = any ((select {SCHEMA}.own_machines())::text[])
    or audience && (select {SCHEMA}.own_machines())
    or ('*' = any (audience) and cardinality((select {SCHEMA}.own_machines())) > 0)
);

create policy texts_add on {SCHEMA}.texts for insert with check (machine = any ({SCHEMA}.own_machines()));

create policy texts_change on {SCHEMA}.texts for update using (machine = any ({SCHEMA}.own_machines()));

create policy texts_remove on {SCHEMA}.texts for delete using (machine = any ({SCHEMA}.own_machines()));

grant select, insert, delete on {SCHEMA}.texts to public;

grant update (audience, text, words) on {SCHEMA}.texts to public;
"""

MIGRATIONS = (TABLES, PLAIN_TEAM)
"""Lists the statements of each migration. A migration is never edited after its release."""


def split_statements(migration: str) -> list[str]:
    return [statement.strip().rstrip(";") for statement in migration.split("\n\n") if statement.strip()]
