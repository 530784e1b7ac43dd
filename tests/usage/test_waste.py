"""These tests check what counts as waste, on made-up sessions."""

from __future__ import annotations

import pytest

from store import Store
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.statistics import Waste
from store.model.usage import Usage
from store.usage.session_cost import SessionUsage


class Conversation:
    """Builds a session turn by turn."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._session = store.sessions.create("s")
        self._calls = 0

    def prompt(self) -> None:
        self._append(NewEntry(role="user", parts=(Text("go"),), created_at="2026-01-05T10:00:00.000Z"))

    def call(self, name: str, arguments: object, output: str = "output", *, failed: bool = False) -> None:
        self._calls += 1
        call_id = f"c{self._calls}"
        self._append(NewEntry(role="assistant", parts=(ToolCall(call_id, name, arguments),)))
        self._append(NewEntry(role="tool", parts=(ToolResult(call_id, output, failed),), is_prompt=False))

    def respond(self, at: str = "2026-01-05T10:00:00.000Z", model: str = "claude-opus-4-8", **tokens: int) -> None:
        usage = Usage(**tokens, model=model, provider="anthropic")
        self._append(NewEntry(role="assistant", parts=(Text("ok"),), created_at=at, usage=usage))

    def compact(self) -> None:
        self._append(NewEntry(kind="compaction", role="system", parts=(Text("summary"),), is_prompt=False))

    def _append(self, entry: NewEntry) -> None:
        self._store.chains.append(self._session.key, [entry])

    def usage(self) -> SessionUsage:
        return self._store.usage.of_session(self._session)

    def find_waste(self) -> list[Waste]:
        return self._store.usage.find_waste([self._session])


@pytest.fixture
def conversation(store: Store) -> Conversation:
    return Conversation(store)


def test_a_file_that_is_read_three_times_is_a_finding(conversation: Conversation) -> None:
    for _ in range(3):
        conversation.prompt()
        conversation.call("Read", {"file_path": "/w/a.py"}, "x" * 400)
    conversation.call("Read", {"file_path": "/w/b.py"})
    (waste,) = conversation.find_waste()
    assert (waste.kind, waste.subject, waste.times, waste.turns) == ("file read again", "/w/a.py", 3, (1, 2, 3))
    assert waste.tokens == 2 * 400 // 4


def test_a_file_that_changed_or_is_read_in_pieces_may_be_read_again(conversation: Conversation) -> None:
    conversation.prompt()
    for number in range(4):
        conversation.call("Read", {"file_path": "/w/a.py"}, f"a = {number}")
        conversation.call("Bash", {"command": "sed -i s/x/y/ /w/a.py"})
        conversation.call("Read", {"file_path": "/w/b.py", "offset": number * 100})
    assert conversation.find_waste() == []


def test_a_file_may_be_read_again_after_a_compaction(conversation: Conversation) -> None:
    conversation.prompt()
    for _ in range(2):
        conversation.call("Read", {"file_path": "/w/a.py"})
        conversation.call("Read", {"file_path": "/w/a.py"})
        conversation.compact()
    assert conversation.find_waste() == []


def test_a_command_that_fails_three_times_is_a_finding(conversation: Conversation) -> None:
    for _ in range(3):
        conversation.prompt()
        conversation.call("Bash", {"command": "make test"}, "no" * 200, failed=True)
        conversation.call("Bash", {"command": "ls"})
    (waste,) = conversation.find_waste()
    assert (waste.kind, waste.subject, waste.times) == ("command failed again", "make test", 3)
    assert (waste.turns, waste.tokens) == ((1, 2, 3), 200)


def test_a_large_output_is_sent_again_until_the_next_compaction(conversation: Conversation) -> None:
    conversation.prompt()
    conversation.call("Bash", {"command": "cat big"}, "x" * 60_000)
    for _ in range(3):
        conversation.respond(cache_read=20_000, output=1)
    conversation.compact()
    conversation.respond(cache_read=500, output=1)
    (waste,) = conversation.find_waste()
    assert (waste.kind, waste.subject, waste.times, waste.turns) == ("large output resent", "Bash", 2, (1,))
    assert waste.tokens == 2 * 15_000
    assert waste.cost == 2 * 7_500  # 15,000 tokens at 0.50 dollars per million, twice
    assert waste.is_estimated


def test_a_tool_result_is_sent_again_with_every_later_request_up_to_a_compaction(conversation: Conversation) -> None:
    conversation.prompt()
    conversation.call("Read", {"file_path": "/w/a.py"}, "x" * 160_000)
    conversation.call("Bash", {"command": "ls"}, "x" * 3_000)
    conversation.respond(cache_write_5m=45_000, output=1)
    conversation.prompt()
    for _ in range(31):
        conversation.respond(cache_read=45_000, output=1)
    conversation.compact()
    conversation.respond(input=500, output=1)
    usage = conversation.usage()
    (result,) = usage.resent_results()
    assert (result.tool, result.turn, result.later_turns) == ("Read", 1, (2,))
    assert (result.tokens, result.times, result.total) == (40_000, 31, 1_240_000)
    assert result.cost == 31 * 20_000  # 40,000 tokens at 0.50 dollars per million
    assert usage.resent_results(1) == [result]
    assert usage.resent_results(2) == []


def test_an_output_below_50_kb_is_no_finding(conversation: Conversation) -> None:
    conversation.prompt()
    conversation.call("Bash", {"command": "cat"}, "x" * 50_000)
    conversation.respond(cache_read=20_000, output=1)
    conversation.respond(cache_read=20_000, output=1)
    assert conversation.find_waste() == []


def test_a_cache_that_expired_during_a_pause_is_a_finding(conversation: Conversation) -> None:
    conversation.prompt()
    conversation.respond("2026-01-05T10:00:00.000Z", cache_read=90_000, cache_write_5m=10_000, output=1)
    conversation.respond("2026-01-05T10:05:00.000Z", cache_read=100_000, cache_write_5m=100, output=1)
    conversation.prompt()
    conversation.respond("2026-01-05T10:10:01.000Z", cache_read=0, cache_write_5m=100_500, output=1)
    (waste,) = conversation.find_waste()
    assert (waste.kind, waste.turns, waste.tokens) == ("cache missed after a pause", (2,), 100_100)
    assert waste.subject == "5 min pause"
    # written at 6.25 instead of read at 0.50 dollars per million
    assert waste.cost == 100_100 * 5_750_000 // 1_000_000


@pytest.mark.parametrize(
    ("end", "pause"),
    [
        ("2026-01-05T11:59:00.000Z", "119 min pause"),
        ("2026-01-06T03:00:00.000Z", "17 h pause"),
        ("2026-01-08T10:00:00.000Z", "3 days pause"),
    ],
)
def test_a_long_pause_is_told_in_hours_or_days(conversation: Conversation, end: str, pause: str) -> None:
    conversation.prompt()
    conversation.respond("2026-01-05T10:00:00.000Z", cache_read=90_000, output=1)
    conversation.respond(end, cache_write_5m=90_000, output=1)
    assert [waste.subject for waste in conversation.find_waste()] == [pause]


def test_a_cache_that_another_model_cannot_read_is_no_finding(conversation: Conversation) -> None:
    conversation.prompt()
    conversation.respond("2026-01-05T10:00:00.000Z", cache_read=90_000, output=1)
    conversation.respond("2026-01-05T10:10:00.000Z", model="claude-sonnet-4-6", cache_write_5m=90_000, output=1)
    assert conversation.find_waste() == []


def test_a_cache_that_outlived_the_pause_is_no_finding(conversation: Conversation) -> None:
    conversation.prompt()
    conversation.respond("2026-01-05T10:00:00.000Z", cache_write_1h=100_000, output=1)
    conversation.respond("2026-01-05T10:50:00.000Z", cache_read=100_000, cache_write_1h=200, output=1)
    assert conversation.find_waste() == []


def test_unusual_arguments_and_results_are_no_error(conversation: Conversation) -> None:
    conversation.prompt()
    for arguments in (None, [], "text", {"file_path": 7}, {"command": None}):
        conversation.call("Read", arguments, "x")
        conversation.call("Bash", arguments, "x", failed=True)
    assert conversation.find_waste() == []
