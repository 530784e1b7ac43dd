"""These tests split a tree of records into the session, which was continued last, and the forks that leave it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.sources.kit import transcripts
from store.sources.kit.transcripts import Branch, Node, find_branches


def tree(*specs: str) -> list[Branch]:
    """Return the branches of nodes that are written as `child<parent`, with a dot before a node that is no message."""
    nodes = []
    for spec in specs:
        name, _, parent = spec.lstrip(".").partition("<")
        nodes.append(Node(name, parent or None, not spec.startswith(".")))
    return find_branches(nodes)


def test_a_tree_without_branches_is_one_session() -> None:
    (only,) = tree("a", "b<a", "c<b")
    assert (only.name, only.shared_nodes(), only.own_nodes, only.fork_fields("s")) == ("", [], [0, 1, 2], {})


def test_an_abandoned_branch_is_a_fork_of_the_one_continued_last() -> None:
    session, fork = tree("a", "b<a", "c<b", "d<a", "e<d")
    assert session.own_nodes == [0, 3, 4]
    assert (fork.native_id("s"), fork.shared_nodes(), fork.own_nodes) == ("s/b", [0], [1, 2])
    assert fork.fork_fields("s") == {"parent_id": "s", "relation": "fork", "forked_at": 0}


def test_a_fork_of_a_fork_names_its_nearest_parent() -> None:
    session, outer, inner = tree("a", "b<a", "c<b", "d<b", "e<a")
    assert session.own_nodes == [0, 4]
    assert (outer.name, outer.shared_nodes(), outer.own_nodes) == ("b", [0], [1, 3])
    assert (inner.name, inner.shared_nodes(), inner.own_nodes) == ("c", [0, 1], [2])
    assert inner.fork_fields("s") == {"parent_id": "s/b", "relation": "fork", "forked_at": 1}


def test_a_branch_without_messages_belongs_to_its_parent() -> None:
    (session,) = tree("a", "b<a", ".label<b", "c<b")
    assert session.own_nodes == [0, 1, 2, 3]


def test_a_second_root_is_a_fork_that_shares_nothing() -> None:
    session, fork = tree("a", "b<a", "other", "more<other")
    assert session.own_nodes == [2, 3]
    assert (fork.shared_nodes(), fork.own_nodes, fork.fork_fields("s")["forked_at"]) == ([], [0, 1], -1)


def test_a_lost_record_starts_no_branch() -> None:
    (session,) = tree("a", "b<a", "d<c", "e<d")
    assert session.own_nodes == [0, 1, 2, 3]


def test_two_records_with_one_id_follow_each_other() -> None:
    (session,) = tree("a", "b<a", "b<a", "c<b")
    assert session.own_nodes == [0, 1, 2, 3]


def test_any_node_may_be_the_leaf() -> None:
    nodes = [Node("a", None, True), Node("b", "a", True), Node("c", "a", True)]
    session, fork = find_branches(nodes, leaf=1)
    assert (session.own_nodes, fork.own_nodes) == ([0, 1], [2])


def test_deep_and_wide_trees_are_split() -> None:
    deep = find_branches([Node(str(n), str(n - 1) if n else None, True) for n in range(5000)])
    assert len(deep) == 1
    comb = find_branches([Node(str(n), str(max(n - 2, 0)) if n else None, True) for n in range(5000)])
    assert sum(len(branch.own_nodes) for branch in comb) == 5000


def test_forks_of_a_file_share_no_more_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MAX_SHARED_NODES", 100)
    trunk = [Node(f"t{n}", f"t{n - 1}" if n else None, True) for n in range(50)]
    leaves = [Node(f"l{n}", f"t{n}", True) for n in range(50)]
    session, *forks = find_branches([*trunk, *leaves], 49)
    shared = [len(fork.shared_nodes()) for fork in forks]
    assert len(forks) == 50
    assert 50 < sum(shared) <= 100
    assert {fork.fork_fields("s")["parent_id"] for fork in forks} == {"s"}
    assert session.own_nodes == list(range(50))


@given(st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 8), st.booleans()), min_size=1, max_size=30))
def test_every_node_is_in_one_branch_and_shared_nodes_are_in_the_parent(
    specs: list[tuple[int, int | None, bool]],
) -> None:
    nodes = [Node(str(name), None if parent is None else str(parent), is_message) for name, parent, is_message in specs]
    branches = find_branches(nodes)
    assert sorted(node for branch in branches for node in branch.own_nodes) == list(range(len(nodes)))
    assert len({branch.name for branch in branches}) == len(branches)
    for branch in branches:
        own_line = branch.shared_nodes() + branch.own_nodes
        assert own_line == sorted(own_line)
        if branch.parent:
            parent_line = branch.parent.shared_nodes() + branch.parent.own_nodes
            assert parent_line[: len(branch.shared_nodes())] == branch.shared_nodes()
