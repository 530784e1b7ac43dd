"""Tests teams whose server may read what is said, so that it can be searched for what is not in a store."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from postgres_server import PASSWORD
from teams.people import Person
from teams.stores import OpenMember, sync_all, trust_all

from store.errors import BadValue, Refused
from store.search.query import Query
from store.store import Store

CALL = {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "grep wombat"}}


@pytest.fixture
def open_plain(tmp_path: Path, blank: Path, team_address: str) -> Iterator[OpenMember]:
    """Provide a function that opens a new store which joins a plain team under a name."""
    stores: list[Store] = []

    def open_store(name: str) -> Store:
        stores.append(Store.open(shutil.copy(blank, tmp_path / f"{name}.db")))
        stores[-1].team.join(team_address, name, is_plain=True)
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


def add_session(store: Store, name: str, *texts: str) -> None:
    store.create_session(name)
    for text in texts:
        store.append_message(name, "user", [{"type": "text", "text": text}])
    store.append_message(name, "assistant", [{"type": "text", "text": "Done."}, CALL])


def search(store: Store, text: str) -> list[str]:
    return [hit.session_id.partition("@")[0] for hit in store.team.search(Query.parse(text)).hits]


def count_texts(address: str) -> int:
    with psycopg.connect(address) as connection:
        row = connection.execute("select count(*) from backscroll_team.texts").fetchone()
    return int(row[0]) if row else 0


def test_the_server_finds_what_is_not_here(open_plain: OpenMember, team_address: str) -> None:
    anna, ben, cleo = open_plain("anna"), open_plain("ben"), open_plain("cleo")
    trust_all(anna, ben)
    add_session(anna, "s1", "The café closes the upload", "retry\0 it")
    add_session(anna, "s2", "Only for Ben: the upload")
    add_session(anna, "s3", "上传失败了, look at UPLOADS")
    anna.team.share(anna.sessions.get("s1"))
    anna.team.share(anna.sessions.get("s2"), ["ben"])
    anna.team.share(anna.sessions.get("s3"))
    anna.sessions.set_title(anna.sessions.get("s3"), "Broken transfer")
    anna.team.sync()

    hits = cleo.team.search(Query.parse('"closes the upload" OR retried'))
    (hit,) = hits.hits
    assert (hits.total, hit.owner, hit.title) == (1, "anna", "The café closes the upload")
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["closes the upload"]
    assert hit.session_id == f"s1@{anna.team.status().machine[:8]}"
    assert search(cleo, "cafe CLOSES") == ["s1"]
    assert search(cleo, "失败") == ["s3"]
    assert search(cleo, "transfer") == ["s3"]
    assert set(search(cleo, "upload*")) == {"s1", "s3"}
    assert search(cleo, "upload* -closes") == ["s3"]
    assert set(search(ben, "upload*")) == {"s1", "s2", "s3"}
    assert search(cleo, "wombat") == search(cleo, "o'clock:*") == []  # tools stay sealed

    ben.team.sync()
    assert search(ben, "upload*") == search(anna, "upload*") == []
    anna.team.unshare(anna.sessions.get("s1"))
    sync_all(anna, ben)
    assert search(cleo, "closes") == []
    anna.team.leave()
    assert count_texts(team_address) == 0


def test_a_text_that_was_added_or_pushed_twice_is_there_once(open_plain: OpenMember, team_address: str) -> None:
    anna, ben = open_plain("anna"), open_plain("ben")
    add_session(anna, "s1", "first " * 30_000)
    anna.team.share(anna.sessions.get("s1"))
    anna.team.sync()
    before = count_texts(team_address)
    anna.append_message("s1", "user", [{"type": "text", "text": "second"}])
    outbox = anna.rows("select * from team_outbox")
    anna.team.sync()
    assert not list(outbox)
    assert count_texts(team_address) == before + 1
    assert search(ben, "second") == ["s1"]
    assert search(ben, "first") == ["s1"]


def test_what_is_masked_for_others_is_masked_for_the_server(open_plain: OpenMember, team_address: str) -> None:
    anna, ben = open_plain("anna"), open_plain("ben")
    key = "AKIAZ7Q3JX5KD2MWN4PB"
    add_session(anna, "s1", f"My key is {key}, use it")
    anna.team.share(anna.sessions.get("s1"), policy="redact")
    anna.team.sync()
    (hit,) = ben.team.search(Query.parse("key")).hits
    assert "[redacted:" in hit.snippet
    with psycopg.connect(team_address) as connection:
        rows = connection.execute("select texts::text from backscroll_team.texts").fetchall()
    assert rows
    assert not any(key in text for (text,) in rows)


def test_whoever_joins_knows_whether_the_server_can_read(
    open_plain: OpenMember, team_address: str, store: Store
) -> None:
    assert open_plain("anna").team.status().is_plain
    with pytest.raises(Refused, match=r"its server can read and search what you share. Join with --plain"):
        store.team.join(team_address, "ben")
    assert not store.team.is_member


def test_a_sealed_team_stays_sealed(open_member: OpenMember, team_address: str, store: Store) -> None:
    anna = open_member("anna")
    with pytest.raises(Refused, match=r"is sealed, and stays so. Join without --plain"):
        store.team.join(team_address, "ben", is_plain=True)
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute("update backscroll_team.team set is_plain = true")
    add_session(anna, "s1", "Nobody reads this")
    anna.team.share(anna.sessions.get("s1"))
    anna.team.sync()
    assert count_texts(team_address) == 0
    with pytest.raises(Refused, match="The team is sealed"):
        anna.team.search(Query.parse("nobody"))


@pytest.mark.parametrize("text", ["agent:claude upload", "is:error", "-upload", "…"])
def test_the_server_searches_words_only(open_plain: OpenMember, text: str) -> None:
    with pytest.raises(BadValue, match=r"words and phrases only|Add a word"):
        open_plain("anna").team.search(Query.parse(text))


def test_texts_are_behind_row_level_security(open_plain: OpenMember, team_address: str) -> None:
    anna, ben = open_plain("anna"), open_plain("ben")
    add_session(anna, "s1", "For nobody else")
    anna.team.share(anna.sessions.get("s1"), ["anna"])
    anna.team.sync()
    role = f"ben_{uuid4().hex}"
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute(f"create role {role} login password '{PASSWORD}'")
        connection.execute(
            f"update backscroll_team.machines set role = '{role}' where machine = %s", (ben.team.status().machine,)
        )
    with psycopg.connect(team_address.replace("postgres@", f"{role}@"), autocommit=True) as connection:
        assert connection.execute("select * from backscroll_team.texts").fetchall() == []
        assert connection.execute("delete from backscroll_team.texts").rowcount == 0
        assert connection.execute("update backscroll_team.texts set text = 'x'").rowcount == 0
        columns = "(share, entry, machine, audience, session, role, at, text, words)"
        for machine in (anna.team.status().machine, ben.team.status().machine):
            with pytest.raises(psycopg.Error):
                connection.execute(
                    f"insert into backscroll_team.texts {columns} values (%s, 9, %s, array['*'], '', '', '', '', '')",
                    (f"{anna.team.status().machine}/x", machine),
                )
    assert count_texts(team_address) > 0


def test_two_people_search_on_the_command_line(tmp_path: Path, team_address: str) -> None:
    anna, ben = Person(tmp_path / "anna"), Person(tmp_path / "ben")
    assert "its server can read" in anna.run("team", "join", team_address, "--plain")
    with anna.store() as store:
        add_session(store, "s1", "Find the wombat")
    anna.run("team", "share", "s1")
    anna.run("team", "sync")
    assert "its server can read" in ben.run("team", "join", team_address, "--plain")
    assert ben.json("team")["team"]["plain"] is True
    answer = ben.json("search", "--team", "wombat")
    assert answer["total"] == 1
    assert answer["hits"][0]["snippet"] == "Find the wombat"
    assert "Find the wombat" in ben.run("search", "--team", "wombat")
    assert "No sessions found." in ben.run("search", "--team", "wombats")
    assert "cannot be used with" in ben.run("search", "--team", "wombat", "--newest", status=2)
