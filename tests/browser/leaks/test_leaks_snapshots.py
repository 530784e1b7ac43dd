"""Tests how the screen with leaks looks, and a turn that was opened there."""

from __future__ import annotations

import pytest
from browser_driver import make_browser

from store.model.leak import Leak
from store.store import Store

from test_leaks_screen import add_leaky_sessions, scan  # isort: skip
from test_screen_snapshots import SIZES, Compare, Size, after, long_ago  # isort: skip


@pytest.fixture
def leaks(store: Store, monkeypatch: pytest.MonkeyPatch) -> dict[str, Leak]:
    """Leaks of a store whose key, and so the fingerprints, are always the same."""
    monkeypatch.setattr("store.leaks.leak_key.secrets.token_bytes", lambda count: b"k" * count)
    add_leaky_sessions(store)
    found = {leak.rule: leak for leak in scan(store)}
    store.leaks.ignore(found["stripe-secret-key"].fingerprint, "the key of a test account")
    return found


@SIZES
def test_leaks(snap_compare: Compare, store: Store, leaks: dict[str, Leak], size: Size) -> None:
    steps = after("Deploy with", ["exclamation_mark"], "2 open, 2 certain", ["end"], "Ignored: the key")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_turn_with_hidden_leaks(snap_compare: Compare, store: Store, leaks: dict[str, Leak], size: Size) -> None:
    steps = after("Deploy with", ["exclamation_mark"], "2 open, 2 certain", ["enter"], "deploy --key sk_live_•")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_redaction_preview(snap_compare: Compare, store: Store, leaks: dict[str, Leak], size: Size) -> None:
    steps = after("Deploy with", ["exclamation_mark"], "2 open, 2 certain", ["X"], "Redact 2 certain leaks?", "Records")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)


@SIZES
def test_redactions(snap_compare: Compare, store: Store, leaks: dict[str, Leak], size: Size) -> None:
    for _ in store.leaks.redactions.begin([leak.fingerprint for leak in leaks.values()]).steps():
        pass
    long_ago(store, "redactions set at")
    steps = after("Deploy with", ["exclamation_mark"], "redacted", ["D"], "Redactions · 1 redaction", "3 values")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=steps)
