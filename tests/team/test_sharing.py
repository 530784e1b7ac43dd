"""Tests that shared sessions and facts arrive on the machines of others, and nothing else does."""

from __future__ import annotations

import pytest
from teams.stores import OpenMember, sync_all, trust_all

from store.errors import LeaksFound, NotFound, Refused
from store.leaks.rule_table import RULES_BY_ID
from store.model.session import Session
from store.store import Store


def add_session(store: Store, name: str = "s1", text: str = "Find the flaky test.") -> Session:
    store.create_session(name, model="gpt-5", working_dir="/src/alpha")
    store.append_message(name, "user", [{"type": "text", "text": text}])
    store.append_message(name, "assistant", [{"type": "text", "text": "It is test_upload."}])
    return store.sessions.get(name)


def shared_id(store: Store, owner: Store) -> str:
    return f"s1@{owner.team.status().machine[:8]}"


def texts(store: Store, session_id: str) -> list[str]:
    return [entry.text for entry in store.chains.entries(store.sessions.get(session_id).key, 0)]


def test_a_shared_session_can_be_read_and_found_by_others(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.team.share(add_session(anna))
    add_session(anna, "private", "Nobody sees this.")
    sync_all(anna, ben)
    session = ben.sessions.get(shared_id(ben, anna))
    assert texts(ben, session.id) == ["Find the flaky test.", "It is test_upload."]
    assert (session.model, session.cwd, session.turns) == ("gpt-5", "/src/alpha", 1)
    assert ben.team.find_owner(session.id) == "anna"
    assert [one.id for one in ben.sessions.matching("flaky")[0]] == [session.id]
    assert [one.id for one in ben.sessions.newest()] == [session.id]


def test_only_new_entries_are_sent(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session = add_session(anna)
    anna.team.share(session)
    sync_all(anna, ben)
    assert anna.team.sync().pushed == 0
    anna.append_message("s1", "user", [{"type": "text", "text": "And now?"}])
    assert anna.team.sync().pushed == 1
    ben.team.sync()
    assert texts(ben, shared_id(ben, anna))[-1] == "And now?"
    assert ben.team.sync().pulled == 0


def test_who_is_not_trusted_gets_no_key_and_is_not_believed(open_member: OpenMember) -> None:
    anna, eve = open_member("anna"), open_member("eve")
    anna.team.share(add_session(anna))
    eve.team.share(add_session(eve, "s2", "Trust me."))
    eve.team.trust("anna", anna.team.status().machine)
    sync_all(anna, eve)
    assert eve.team.list_shares() == [share for share in eve.team.list_shares() if share.is_own]
    assert [session.id for session in anna.sessions.newest()] == ["s1"]
    (stranger,) = [machine for machine in anna.team.members() if not machine.is_own]
    assert (stranger.name, stranger.trusted_at, stranger.waiting > 0) == ("eve", None, True)


def test_what_was_shared_before_a_machine_is_trusted_arrives_when_it_is(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    anna.team.share(add_session(anna))
    anna.team.sync()
    ben.team.trust("anna", anna.team.status().machine)
    ben.team.sync()
    assert ben.sessions.newest() == []
    anna.append_message("s1", "user", [{"type": "text", "text": "Also this."}])
    anna.team.trust("ben", ben.team.status().machine)
    sync_all(anna, ben)
    assert texts(ben, shared_id(ben, anna)) == ["Find the flaky test.", "It is test_upload.", "Also this."]


def test_a_fingerprint_must_be_the_right_one(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    anna.team.sync()
    with pytest.raises(Exception, match="No machine of ben has this fingerprint"):
        anna.team.trust("ben", "0" * 32)
    with pytest.raises(NotFound, match="No such member"):
        anna.team.trust("cleo", ben.team.status().machine)


def test_a_session_can_be_shared_with_one_member_only(open_member: OpenMember) -> None:
    anna, ben, cleo = open_member("anna"), open_member("ben"), open_member("cleo")
    trust_all(anna, ben, cleo)
    anna.team.share(add_session(anna), ["ben"])
    sync_all(anna, ben, cleo)
    assert [session.id for session in ben.sessions.newest()] == [shared_id(ben, anna)]
    assert cleo.sessions.newest() == []
    with pytest.raises(NotFound, match="No such member"):
        anna.team.share(add_session(anna, "s2"), ["dora"])


def test_more_readers_are_added_without_taking_it_from_the_others(open_member: OpenMember) -> None:
    anna, ben, cleo = open_member("anna"), open_member("ben"), open_member("cleo")
    trust_all(anna, ben, cleo)
    session = add_session(anna)
    anna.team.share(session, ["ben"])
    sync_all(anna, ben, cleo)
    received = ben.sessions.get(shared_id(ben, anna))
    ben.notes.add_note(received, "Mine")
    ben.team.comment(received, "Why?")
    for names in (["ben", "cleo"], []):
        anna.team.share(session, names)
        sync_all(ben, anna, cleo)
        assert [note.text for note in ben.notes.notes(received)] == ["Mine", "Why?"]
        assert [note.signed_text for note in cleo.notes.notes(cleo.sessions.newest()[0])] == ["ben: Why?"]
    dora = open_member("dora")
    trust_all(anna, dora)
    sync_all(anna, dora)
    assert len(dora.sessions.newest()) == 1
    anna.team.share(session, ["ben"])
    sync_all(anna, ben, cleo)
    assert cleo.sessions.newest() == []


def test_comments_of_others_stay_as_notes_when_a_session_is_withdrawn(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session = add_session(anna)
    anna.team.share(session)
    sync_all(anna, ben)
    ben.team.comment(ben.sessions.get(shared_id(ben, anna)), "Why?")
    sync_all(ben, anna)
    anna.team.unshare(session)
    anna.team.share(session)
    sync_all(anna, ben)
    (note,) = anna.notes.notes(session)
    assert (note.signed_text, note.is_comment) == ("ben: Why?", False)
    assert ben.notes.notes(ben.sessions.get(shared_id(ben, anna))) == []
    anna.notes.delete_note(note.id)
    assert anna.notes.notes(session) == []


def test_unsharing_removes_the_session_everywhere(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session = add_session(anna)
    anna.team.share(session)
    sync_all(anna, ben)
    anna.team.unshare(session)
    sync_all(anna, ben)
    assert ben.sessions.newest() == []
    assert ben.sessions.matching("flaky")[1] == 0
    assert ben.rows("select 1 from tombstones") == []
    assert [one.id for one in anna.sessions.newest()] == ["s1"]
    cleo = open_member("cleo")
    trust_all(anna, cleo)
    sync_all(anna, cleo)
    assert cleo.sessions.newest() == []


def test_a_session_with_a_certain_leak_is_not_shared(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    leaky = add_session(anna, "s1", "The key is AKIAZ7Q3JX5KD2MWN4PB, keep it.")
    with pytest.raises(LeaksFound):
        anna.team.share(leaky)
    sync_all(anna, ben)
    assert ben.sessions.newest() == []
    anna.team.share(leaky, policy="redact")
    sync_all(anna, ben)
    assert texts(ben, shared_id(ben, anna))[0].startswith("The key is [redacted: ")


def test_a_shared_session_is_held_when_a_leak_is_added(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.team.share(add_session(anna))
    sync_all(anna, ben)
    anna.append_message("s1", "user", [{"type": "text", "text": "Use AKIAZ7Q3JX5KD2MWN4PB."}])
    sync_all(anna, ben)
    assert len(texts(ben, shared_id(ben, anna))) == 2
    (held,) = anna.team.status().held
    assert held.session_id == "s1"
    assert "AKIAZ7Q3JX5KD2MWN4PB" not in held.held


def test_only_the_owner_withdraws_a_session(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.team.share(add_session(anna))
    sync_all(anna, ben)
    received = ben.sessions.get(shared_id(ben, anna))
    with pytest.raises(Refused, match="Only anna"):
        ben.team.unshare(received)
    with pytest.raises(Refused, match="anna shares this session"):
        ben.team.share(received)


def add_session_with_sub_agent(store: Store) -> Session:
    session = add_session(store)
    store.create_session("s1:delegate:helper")
    store.append_message("s1:delegate:helper", "user", [{"type": "text", "text": "Look at the uploader."}])
    return session


def test_sub_agents_travel_with_their_session(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session = add_session_with_sub_agent(anna)
    anna.team.share(session)
    anna.team.sync()
    ben.team.sync()
    (child,) = ben.sessions.children(shared_id(ben, anna))
    assert texts(ben, child.id) == ["Look at the uploader."]
    anna.team.unshare(session)
    sync_all(anna, ben)
    assert ben.sessions.newest() == []


def test_a_fork_arrives_as_a_fork_in_whatever_order_both_are_shared(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    parent = add_session(anna)
    for _ in range(4):
        anna.team.share(anna.sessions.fork(parent, 1))
    anna.team.share(parent)
    sync_all(anna, ben)
    forks = ben.sessions.children(shared_id(ben, anna))
    assert [fork.relation for fork in forks] == ["fork"] * 4


def test_leaving_withdraws_and_removes_everything(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.team.share(add_session(anna))
    ben.team.share(add_session(ben, "own"))
    sync_all(anna, ben)
    assert anna.team.leave() == 1
    assert [session.id for session in anna.sessions.newest()] == ["s1"]
    ben.team.sync()
    assert [session.id for session in ben.sessions.newest()] == ["own"]
    assert not anna.team.is_member
    with pytest.raises(NotFound, match="no team"):
        anna.team.sync()


def test_a_sub_agent_is_withdrawn_and_comes_back_with_its_session(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session = add_session_with_sub_agent(anna)
    anna.team.share(session)
    sync_all(anna, ben)
    with pytest.raises(Refused, match="Withdraw 's1' instead"):
        anna.team.unshare(anna.sessions.get("s1:delegate:helper"))
    anna.team.unshare(session)
    sync_all(anna, ben)
    assert ben.sessions.newest() == []
    anna.team.share(session)
    sync_all(anna, ben)
    (child,) = ben.sessions.children(shared_id(ben, anna))
    assert texts(ben, child.id) == ["Look at the uploader."]


def test_what_is_not_read_yet_is_held_until_it_is(open_member: OpenMember) -> None:
    anna = open_member("anna")
    session = add_session(anna)
    anna.team.share(session)
    with anna.transaction() as connection:
        connection.execute("update sessions set depth = 'text'")
    for _ in range(2):
        anna.team.sync()
        assert [share.held for share in anna.team.status().held] == ["The session is not completely read yet."]
    with anna.transaction() as connection:
        connection.execute("update sessions set depth = 'full'")
    assert anna.team.sync().pushed > 0
    assert anna.team.status().held == ()


def test_what_a_late_member_gets_includes_what_others_changed(open_member: OpenMember) -> None:
    zoe, ben = open_member("zoe"), open_member("ben")
    trust_all(zoe, ben)
    zoe.team.share(add_session(zoe))
    sync_all(zoe, ben)
    ben.sessions.set_title(ben.sessions.get(shared_id(ben, zoe)), "A title of Ben")
    sync_all(zoe, ben)
    anna = open_member("anna")
    trust_all(anna, ben, zoe)
    sync_all(anna, ben, zoe, anna)
    assert anna.sessions.get(shared_id(anna, zoe)).title == "A title of Ben"


def test_a_redaction_names_the_sessions_whose_copies_others_have(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    key = RULES_BY_ID["groq-key"].example
    shared = add_session(anna, "s1", f"Use {key}.")
    add_session(anna, "private", f"Use {key}, too.")
    anna.team.share(shared, policy="allow")
    sync_all(anna, ben)
    assert list(anna.leaks.begin_scan().steps())
    (leak,) = anna.leaks.list_leaks()
    assert anna.leaks.redactions.preview([leak.fingerprint]).shared == (shared.id,)
    run = anna.leaks.redactions.begin([leak.fingerprint])
    assert list(run.steps())
    assert run.report.shared == (shared.id,)
    sync_all(anna, ben)
    assert key in texts(ben, shared_id(ben, anna))[0]
    anna.team.unshare(shared)
    assert anna.team.list_sent({shared.id}) == ()
    anna.team.share(shared)
    sync_all(anna, ben)
    (received,) = ben.sessions.newest()
    assert texts(ben, received.id)[0] == f"Use [redacted: groq-key #{leak.fingerprint}]."
