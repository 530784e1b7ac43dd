"""Tests the commands of a team with two home folders and one server, as two people use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from teams.people import Person, make_team


@pytest.fixture
def people(tmp_path: Path, team_address: str) -> tuple[Person, Person]:
    """Provide Anna and Ben, who joined and trust each other."""
    anna, ben = make_team(team_address, (tmp_path / "anna", "anna"), (tmp_path / "ben", "ben"))
    return anna, ben


def write_transcript(home: Path) -> str:
    """Write a session of Claude Code, as it leaves one, and return its id."""
    session = "6f7c2d0a-1b1e-4c53-9a3e-0d2b8f3c4d5e"
    folder = home / ".claude/projects/-src-alpha"
    folder.mkdir(parents=True)
    common = {
        "sessionId": session,
        "cwd": "/src/alpha",
        "version": "2.1.0",
        "isSidechain": False,
        "userType": "external",
    }
    lines: list[dict[str, Any]] = [
        common
        | {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": "2026-11-01T10:00:00.000Z"}
        | {"message": {"role": "user", "content": "Find the wombat."}},
        common
        | {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "timestamp": "2026-11-01T10:00:05.000Z"}
        | {
            "message": {
                "id": "m1",
                "role": "assistant",
                "model": "claude-opus-4-8",
                "content": [{"type": "text", "text": "It is in the cellar."}],
                "usage": {"input_tokens": 100, "output_tokens": 20},
            }
        },
    ]
    (folder / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return session


def share_a_transcript(owner: Person, reader: Person) -> None:
    session = write_transcript(owner.home)
    owner.run("sync")
    owner.run("team", "share", session)
    owner.run("team", "sync")
    reader.run("team", "sync")


def test_a_session_begun_on_one_machine_is_found_and_continued_on_the_other(people: tuple[Person, Person]) -> None:
    anna, ben = people
    share_a_transcript(anna, ben)
    (found,) = ben.json("list", "owner:anna wombat")["sessions"]
    assert (found["owner"], found["machine"], found["source"]) == ("anna", anna.fingerprint, "claude")
    assert ben.json("list", "is:shared")["total"] == 1
    assert ben.json("list", "owner:ben")["total"] == 0
    assert "machine of anna" in ben.run("resume", found["id"], "--print", status=1)
    (ben.home / ".claude/projects").mkdir(parents=True)
    forked = ben.json("fork", found["id"], "--turn", "1", "--native")
    assert Path(forked["path"]).is_relative_to(ben.home)
    assert "Find the wombat." in Path(forked["path"]).read_text()
    assert ben.run("resume", forked["session"]["id"], "--print").startswith("cd /src/alpha && claude --resume")


def test_usage_of_a_received_session_is_counted(people: tuple[Person, Person]) -> None:
    from store.usage.rederive import rederive_usage

    anna, ben = people
    share_a_transcript(anna, ben)
    with ben.store() as store:
        for _ in rederive_usage(store):
            pass
    (found,) = ben.json("list")["sessions"]
    assert (found["tokens"]["input"], found["tokens"]["output"]) == (100, 20)
    assert found["cost_usd"] > 0


def test_the_way_of_a_session_comment_conflict_and_withdrawal(people: tuple[Person, Person]) -> None:
    anna, ben = people
    session = write_transcript(anna.home)
    anna.run("sync")
    assert "Run `backscroll team sync`" in anna.run("team", "share", session, "--with", "ben")
    assert "sent" in anna.run("team", "sync")
    assert "1 new session" in ben.run("team", "sync")
    (found,) = ben.json("list")["sessions"]
    ben.run("team", "comment", found["id"], "Which cellar?", "--turn", "1")
    ben.run("title", found["id"], "Wombats")
    anna.run("title", session, "The wombat")
    ben.run("team", "sync")
    anna.run("team", "sync")
    assert "ben: Which cellar?" in anna.run("show", session)
    (conflict,) = anna.json("team", "conflicts")["conflicts"]
    assert {conflict["kept"], conflict["lost"]} == {"Wombats", "The wombat"}
    anna.run("team", "choose", str(conflict["id"]), "other")
    anna.run("team", "sync")
    ben.run("team", "sync")
    assert ben.json("list")["sessions"][0]["title"] == conflict["lost"]
    anna.run("team", "unshare", session)
    anna.run("team", "sync")
    assert "1 session withdrawn" in ben.run("team", "sync")
    assert ben.json("list")["total"] == 0


def test_what_a_person_gets_told(people: tuple[Person, Person], tmp_path: Path) -> None:
    anna, _ = people
    assert "Nothing new." in anna.run("team", "sync")
    assert "No conflicts." in anna.run("team", "conflicts")
    assert "Nothing is shared." in anna.run("team", "shared")
    assert "No such session" in anna.run("team", "share", "zzz", status=1)
    assert "in a team already" in anna.run("team", "join", "postgresql://localhost/x", status=1)
    assert "ben" in anna.run("team", "members")
    stranger = Person(tmp_path / "stranger")
    assert "is in no team" in stranger.run("team", "sync", status=1)
    assert "is in no team" in stranger.run("team", status=1)
    assert "You left the team." in anna.run("team", "leave")


def test_all_sessions_are_shared_with_the_own_machines_only(tmp_path: Path, team_address: str) -> None:
    laptop, server, ben = make_team(
        team_address, *((tmp_path / name, "anna") for name in ("laptop", "server")), (tmp_path / "ben", "ben")
    )
    (laptop.home / "config/backscroll/config.toml").write_text("[team]\nown_machines = true\n")
    write_transcript(laptop.home)
    laptop.run("sync")
    for person in (laptop, server, ben):
        person.run("team", "sync")
    (found,) = server.json("list")["sessions"]
    assert (found["owner"], found["machine"]) == ("anna", laptop.fingerprint)
    assert ben.json("list")["total"] == 0
    (server.home / ".claude/projects").mkdir(parents=True)
    assert server.json("fork", found["id"], "--turn", "1", "--native")["path"]


def test_sessions_of_a_folder_are_shared_by_a_rule(people: tuple[Person, Person]) -> None:
    anna, ben = people
    config = anna.home / "config/backscroll/config.toml"
    config.write_text('[team]\nshare = ["/src/alpha"]\n')
    write_transcript(anna.home)
    anna.run("sync")
    anna.run("team", "sync")
    ben.run("team", "sync")
    (found,) = ben.json("list")["sessions"]
    anna.run("team", "unshare", anna.json("list")["sessions"][0]["id"])
    anna.run("team", "sync")
    ben.run("team", "sync")
    anna.run("team", "sync")
    assert found["owner"] == "anna"
    assert ben.json("list")["total"] == 0
