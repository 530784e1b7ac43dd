"""This module holds the tables of shared facts and of proposals. Its statements are never edited."""

# Which agents get a fact in their memory files, and what we wrote into each file last. An empty agent is all agents, an
# empty folder everywhere. `lines` lists pairs of a fact and its line.
MEMORY_FILES = """
create table memory_audiences (
    key integer primary key,
    fact integer not null references facts(id) on delete cascade,
    agent text not null,
    folder text not null
) strict

create unique index memory_audiences_once on memory_audiences(fact, agent, folder)

create table memory_blocks (
    path text primary key,
    lines text not null
) strict, without rowid
"""

FACT_PROPOSALS = """
create table fact_proposals (
    id integer primary key,
    text text not null,
    agent text not null,
    reason text not null,
    session integer references sessions(key) on delete cascade,
    turn integer,
    created_at text not null,
    state text not null default 'waiting',
    fact integer
) strict

create index fact_proposals_waiting on fact_proposals(id) where state = 'waiting'
"""
