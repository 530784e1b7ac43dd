"""This module creates and changes the tables, in numbered migrations. The modules `*_tables` have the DDL of some.

New and old files run through the same migrations. A migration is never edited after its release, and its name is stored
in the file. When one changes or deletes existing rows, set `LAST_REWRITING_MIGRATION` to its number, so that a backup
is made before it.
"""

from __future__ import annotations

from store.database.leak_tables import LEAKS, REDACTIONS
from store.database.memory_tables import FACT_PROPOSALS, MEMORY_FILES
from store.database.migration_set import Database, MigrationSet
from store.database.team_tables import COLLECTED_SHARES, EDIT_AUTHORS, PLAIN_TEAM, TEAM

migrations = MigrationSet("backscroll")


def _execute(db: Database, statements: str) -> None:
    """Execute statements that are separated by blank lines.

    `executescript` would commit the migration's transaction.
    """
    for statement in statements.split("\n\n"):
        if statement.strip():
            db.execute(statement)


@migrations.add
def m001_sessions_and_entries(db: Database) -> None:
    _execute(db, CONVERSATIONS)


@migrations.add
def m002_knowledge(db: Database) -> None:
    _execute(db, KNOWLEDGE)


@migrations.add
def m003_secrets(db: Database) -> None:
    _execute(db, SECRETS)


@migrations.add
def m004_search(db: Database) -> None:
    _execute(db, SEARCH)


@migrations.add
def m005_sources(db: Database) -> None:
    _execute(db, SOURCES)


@migrations.add
def m006_expiry(db: Database) -> None:
    _execute(db, EXPIRY)


@migrations.add
def m007_marks(db: Database) -> None:
    _execute(db, MARKS)


@migrations.add
def m008_loose_records(db: Database) -> None:
    _execute(db, LOOSE_RECORDS)


@migrations.add
def m009_parts_behind_records(db: Database) -> None:
    _execute(db, PARTS_AFTER_RECORDS)


@migrations.add
def m010_skims(db: Database) -> None:
    _execute(db, QUICK_INDEX)


@migrations.add
def m011_one_text(db: Database) -> None:
    _execute(db, SINGLE_TEXT_COLUMN)


@migrations.add
def m012_merged_at_last(db: Database) -> None:
    _execute(db, INDEX_MERGE_SETTINGS)


@migrations.add
def m013_newest_at_a_glance(db: Database) -> None:
    _execute(db, COVERING_NEWEST_INDEX)


@migrations.add
def m014_call_durations(db: Database) -> None:
    _execute(db, CALL_DURATIONS)


@migrations.add
def m015_cache_writes(db: Database) -> None:
    _execute(db, CACHE_WRITES)


@migrations.add
def m016_empty_sessions(db: Database) -> None:
    _execute(db, EMPTY_SESSIONS_INDEX)


@migrations.add
def m017_session_activity(db: Database) -> None:
    _execute(db, SESSION_ACTIVITY)


@migrations.add
def m018_organised_sessions(db: Database) -> None:
    _execute(db, ORGANISED_SESSIONS_INDEXES)


@migrations.add
def m019_packed_blocks(db: Database) -> None:
    _execute(db, PACKED_BLOCKS)


@migrations.add
def m020_usage(db: Database) -> None:
    _execute(db, USAGE)


@migrations.add
def m021_leaks(db: Database) -> None:
    _execute(db, LEAKS)


@migrations.add
def m022_memory_files(db: Database) -> None:
    _execute(db, MEMORY_FILES)


@migrations.add
def m023_fact_proposals(db: Database) -> None:
    _execute(db, FACT_PROPOSALS)


@migrations.add
def m024_redactions(db: Database) -> None:
    _execute(db, REDACTIONS)


@migrations.add
def m025_team(db: Database) -> None:
    _execute(db, TEAM)


@migrations.add
def m026_plain_team(db: Database) -> None:
    _execute(db, PLAIN_TEAM)


@migrations.add
def m027_collected_shares(db: Database) -> None:
    _execute(db, COLLECTED_SHARES)


@migrations.add
def m028_edit_authors(db: Database) -> None:
    _execute(db, EDIT_AUTHORS)


CONVERSATIONS = """
create table sources (
    key integer primary key,
    kind text not null,
    locator text not null,
    marks text not null default '{}',
    problems text not null default '[]',
    changed_at text,
    unique (kind, locator)
) strict

create table sessions (
    key integer primary key autoincrement,
    id text not null unique,
    source text not null default 'library',
    source_key integer references sources(key),
    native_id text not null,
    parent_id text,
    relation text check (relation in ('fork', 'delegate', 'sidechain', 'superseded')),
    forked_at integer,
    channel text not null default '',
    channel_id text not null default '',
    user text not null default '',
    agent_title text not null default '',
    own_title text not null default '',
    first_prompt text not null default '',
    provider text not null default '',
    model text not null default '',
    cwd text not null default '',
    environment_name text not null default '',
    environment_type text not null default '',
    environment_path text not null default '',
    system_prompt text not null default '',
    webhook text not null default '',
    head integer,
    tail integer,
    turns integer not null default 0,
    entries integer not null default 0,
    tool_calls integer not null default 0,
    errors integer not null default 0,
    tokens_input integer not null default 0,
    tokens_output integer not null default 0,
    tokens_cached integer not null default 0,
    tokens_total integer not null default 0,
    cost real,
    created_at text not null,
    updated_at text not null,
    pinned integer not null default 0,
    archived integer not null default 0,
    deleted integer not null default 0,
    gone integer not null default 0,
    reader_version integer not null default 0,
    depth text not null default 'full' check (depth in ('text', 'full'))
) strict

create index sessions_newest on sessions(updated_at desc, key desc) where deleted = 0

create index sessions_native on sessions(native_id)

create index sessions_children on sessions(parent_id, relation, deleted) where parent_id is not null

create trigger sessions_head_frozen before update of head on sessions
when old.head is not null and new.head is not old.head
begin select raise(abort, 'the head of a session never changes'); end

create table blocks (
    key integer primary key autoincrement,
    data blob not null
) strict

create table records (
    key integer primary key,
    session integer not null references sessions(key),
    place text not null default '',
    position text not null default '',
    digest blob not null,
    length integer not null,
    block integer,
    start integer,
    data blob,
    check ((block is null) = (data is not null))
) strict

create index records_session on records(session)

create table purging (session integer primary key) strict

create table entries (
    key integer primary key,
    session integer not null references sessions(key),
    parent integer,
    seq integer not null,
    record integer,
    turn integer not null,
    kind text not null,
    role text not null default '',
    author text not null default '',
    model text not null default '',
    message_key text not null default '',
    text text not null default '',
    parts blob,
    inherited integer not null default 0,
    tokens text,
    created_at text not null,
    unique (session, seq),
    unique (session, key),
    check ((parent is null) = (seq = -1)),
    check ((parent is null) = (kind = 'header')),
    foreign key (session, parent) references entries(session, key) deferrable initially deferred
) strict

create unique index entries_one_header on entries(session) where parent is null

create unique index entries_one_child on entries(parent) where parent is not null

create trigger entries_frozen before update of key, session, parent, seq, record on entries
when new.key is not old.key or new.session is not old.session or new.parent is not old.parent
    or new.seq is not old.seq or new.record is not old.record
begin select raise(abort, 'an entry keeps its id, session, parent, seq and record'); end

create trigger entries_kept before delete on entries
when old.session not in (select session from purging)
begin select raise(abort, 'entries are only ever appended'); end

create table turns (
    session integer not null references sessions(key),
    n integer not null,
    entry integer not null,
    first_seq integer not null,
    last_seq integer not null,
    started_at text not null,
    ended_at text not null,
    primary key (session, n)
) strict, without rowid

create table tool_calls (
    key integer primary key,
    session integer not null references sessions(key),
    turn integer not null,
    call_id text not null,
    name text not null,
    status text not null check (status in ('ok', 'error', 'pending', 'orphan')),
    duration_ms real,
    entry integer,
    part integer,
    result_entry integer,
    result_part integer,
    inherited integer not null default 0
) strict

create index tool_calls_session on tool_calls(session, turn)

create index tool_calls_pending on tool_calls(session, call_id) where status = 'pending'

create table tombstones (
    source text not null,
    native_id text not null,
    purged_at text not null,
    primary key (source, native_id)
) strict, without rowid
"""

KNOWLEDGE = """
create table summaries (
    key integer primary key,
    session integer not null references sessions(key),
    text text not null,
    up_to_turn integer,
    origin text not null check (origin in ('source', 'person', 'library')),
    current integer not null default 0,
    created_at text not null
) strict

create unique index summaries_one_current on summaries(session) where current = 1

create table facts (
    id integer primary key autoincrement,
    text text not null,
    scope text not null default 'global',
    category text not null default '',
    session integer references sessions(key),
    entry_seq integer,
    foreign_place text not null default '',
    foreign_text text not null default '',
    created_at text not null,
    updated_at text not null,
    retired_at text
) strict

create index facts_scope on facts(scope) where retired_at is null

create table meta (
    key text primary key,
    value text not null,
    updated_at text not null
) strict, without rowid

create table published (
    id text primary key,
    session integer not null references sessions(key),
    filename text not null,
    path text not null,
    created_at text not null
) strict, without rowid

create table tags (
    session integer not null references sessions(key),
    name text not null,
    primary key (session, name)
) strict, without rowid

create index tags_name on tags(name)

create table notes (
    id integer primary key autoincrement,
    session integer not null references sessions(key),
    entry_seq integer,
    text text not null,
    created_at text not null
) strict

create index notes_session on notes(session)

create table edits (
    id integer primary key autoincrement,
    kind text not null,
    at text not null,
    sessions text not null default '[]',
    before text not null,
    after text not null,
    undoes integer references edits(id),
    undone_by integer references edits(id),
    blanked integer not null default 0
) strict
"""

SECRETS = """
create table vault (
    key_id blob primary key,
    store blob not null,
    wrapped blob not null,
    kdf text not null,
    state text not null check (state in ('current', 'retired')),
    created_at text not null
) strict, without rowid

create table secrets (
    session integer not null references sessions(key),
    key text not null,
    version integer not null,
    sealed blob not null,
    current integer not null default 0,
    created_at text not null,
    primary key (session, key, version)
) strict, without rowid

create unique index secrets_one_current on secrets(session, key) where current = 1
"""

SEARCH = """
create virtual table conversation_fts using fts5(
    text, thinking, content='', tokenize='unicode61 remove_diacritics 2'
)

create virtual table tools_fts using fts5(
    call, result, content='', tokenize='unicode61 remove_diacritics 2'
)
"""

SOURCES = """
alter table sessions add column stamp text not null default ''

create index sessions_source on sessions(source_key) where source_key is not null

create unique index facts_foreign on facts(foreign_place) where foreign_place != ''

create table foreign_secrets (
    session integer not null references sessions(key),
    key text not null,
    place text not null,
    created_at text not null,
    primary key (session, key)
) strict, without rowid
"""

EXPIRY = """
alter table sessions add column expires_at text not null default ''
"""

MARKS = """
alter table sessions add column mark text not null default ''
"""

# Every small append looks up the loose records of its session. Only a purge needs the others, and it can scan them all.
LOOSE_RECORDS = """
drop index records_session

create index records_loose on records(session) where data is not null
"""

# A path is stored once and not with every record of the file. The parts that are derived from a record are stored
# behind it in its block, where they compress well because they repeat its words. An index with pages as large as those
# of the file is merged faster, and a larger hash table produces fewer segments to merge.
PARTS_AFTER_RECORDS = """
create table places (
    key integer primary key,
    name text not null unique
) strict

alter table records add column place_key integer

alter table records add column behind integer not null default 0

insert into conversation_fts (conversation_fts, rank) values ('pgsz', 16000)

insert into tools_fts (tools_fts, rank) values ('pgsz', 16000)

insert into tools_fts (tools_fts, rank) values ('hashsize', 16777216)

insert into tools_fts (tools_fts, rank) values ('automerge', 8)
"""

# The quick index: the words of sessions whose entries are not read yet, under the keys of the sessions. It is emptied
# in one go when all of them are read.
QUICK_INDEX = """
create virtual table skims_fts using fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2'
)

create index sessions_skimmed on sessions(key) where depth = 'text'
"""

# No query needs the column of a word, and storing it took a quarter of the index. The new tables are empty; the caller
# of the migration fills them. The quick index is written in large pieces and soon deleted, so it is merged rarely.
SINGLE_TEXT_COLUMN = """
drop table conversation_fts

drop table tools_fts

create virtual table conversation_fts using fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2'
)

create virtual table tools_fts using fts5(
    text, content='', tokenize='unicode61 remove_diacritics 2'
)

insert into conversation_fts (conversation_fts, rank) values ('pgsz', 16000)

insert into tools_fts (tools_fts, rank) values ('pgsz', 16000)

insert into tools_fts (tools_fts, rank) values ('hashsize', 16777216)

insert into tools_fts (tools_fts, rank) values ('automerge', 8)

insert into skims_fts (skims_fts, rank) values ('pgsz', 16000)

insert into skims_fts (skims_fts, rank) values ('hashsize', 16777216)

insert into skims_fts (skims_fts, rank) values ('automerge', 16)
"""

# An import writes one segment of the index per commit. Merging them all at the end is faster than merging some of them
# repeatedly, and a search over a few dozen small segments is as fast.
INDEX_MERGE_SETTINGS = """
insert into conversation_fts (conversation_fts, rank) values ('hashsize', 16777216)

insert into conversation_fts (conversation_fts, rank) values ('automerge', 64)

insert into conversation_fts (conversation_fts, rank) values ('crisismerge', 128)

insert into tools_fts (tools_fts, rank) values ('automerge', 64)

insert into tools_fts (tools_fts, rank) values ('crisismerge', 128)

insert into skims_fts (skims_fts, rank) values ('automerge', 64)

insert into skims_fts (skims_fts, rank) values ('crisismerge', 1000)
"""

# A search reads these columns of the newest thousand sessions at every key press. The table rows are ten times as long,
# mostly prompts and marks. The column of the partial index's condition must be in the index too, or SQLite reads the
# rows.
COVERING_NEWEST_INDEX = """
drop index sessions_newest

create index sessions_newest on sessions(
    updated_at desc, key desc, deleted, relation, cwd, head, tail, own_title, agent_title, id
) where deleted = 0
"""

# New calls get their durations when they are stored. Entries that the store has are not derived again, so calls that it
# read from agents get theirs here, in milliseconds.
CALL_DURATIONS = """
update tool_calls
set duration_ms = round((julianday(answered.created_at) - julianday(asked.created_at)) * 86400000)
from entries as asked, entries as answered
where asked.key = tool_calls.entry and answered.key = tool_calls.result_entry
    and duration_ms is null and answered.created_at > asked.created_at
    and tool_calls.session in (select key from sessions where source != 'library')
"""

# Until now one number counted the tokens that were read from a cache and those that were written to one. How many were
# written is unknown until the session is read again.
CACHE_WRITES = """
alter table sessions add column tokens_cache_write integer default 0

update sessions set tokens_cache_write = null where tokens_cached > 0
"""

# The list of sessions asks for the empty ones each time it is built. They are few, but finding them without an index
# would read every row, and many rows hold long prompts.
EMPTY_SESSIONS_INDEX = """
create index sessions_empty on sessions(key) where turns = 0
"""

# Says what the agent does after the last entry, and which process it is. A stored session gets a status only if its
# last entry says that the agent ended, or is an error. The others are idle until they grow. Errors of model calls are
# events, messages of the system, or messages in the name of a model that is none. Only such words count that name a
# failure without any doubt.
SESSION_ACTIVITY = """
alter table sessions add column activity text not null default ''

alter table sessions add column process integer

update sessions set activity = 'ended' where source = 'copilot' and exists (
    select 1 from entries where entries.key = sessions.tail and kind = 'event' and text in ('routine', 'error'))

update sessions set activity = 'failed' where exists (
    select 1 from entries where entries.key = sessions.tail and length(text) <= 400
        and (kind = 'event' or (kind = 'message' and (role = 'system' or model = '<synthetic>')))
        and (text like '%error%' or text like '%quota%' or text like '%rate limit%' or text glob '[45][0-9][0-9][: ]*'))

create index sessions_process on sessions(process) where process is not null
"""

# The list puts pinned sessions on top and leaves out archived ones, each time it is built. All three kinds are few.
ORGANISED_SESSIONS_INDEXES = """
create index sessions_pinned on sessions(key) where pinned = 1

create index sessions_archived on sessions(key) where archived = 1

create index sessions_trashed on sessions(key) where deleted = 1
"""

# Blocks are compressed quickly when they are written, and packed when there is time. The index lists those to pack.
PACKED_BLOCKS = """
alter table blocks add column packed integer not null default 0

create index blocks_unpacked on blocks(key) where packed = 0
"""

# One row for each API response of a session, without those of inherited entries. `call` is a hash of the vendor's id of
# the response, as a negative number; without such an id it is a positive number that only this session knows. `counted`
# is 1 in one of the sessions that have the response, so that a sum over it counts nothing twice. `known` says how each
# number is known, two bits for each kind of tokens. The rows of stored sessions are derived later from their records;
# `usage_version` says by which version of the rules.
USAGE = """
create table usage_models (
    key integer primary key,
    provider text not null,
    model text not null,
    unique (provider, model)
) strict

create table usage (
    session integer not null references sessions(key),
    call integer not null,
    entry integer not null,
    model integer not null references usage_models(key),
    at integer not null,
    input integer not null,
    cache_read integer not null,
    cache_write_5m integer not null,
    cache_write_1h integer not null,
    output integer not null,
    reasoning integer not null,
    known integer not null,
    reported_cost integer,
    counted integer not null,
    primary key (session, call)
) strict, without rowid

create unique index usage_counted on usage(call) where counted = 1 and call < 0

create index usage_uncounted on usage(call) where counted = 0 and call < 0

create trigger usage_taken_over before insert on usage when new.counted = 1 and new.call < 0
begin update usage set counted = 0 where call = new.call and call < 0 and counted = 1 and session != new.session; end

alter table sessions add column usage_version integer not null default 0

create index sessions_usage on sessions(usage_version)
"""
