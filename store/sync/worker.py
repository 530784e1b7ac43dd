"""The worker process: syncs the agents' stores for as long as a browser is open.

The browser starts one worker and talks to it over stdin and stdout, one JSON object a line. This protocol is private.

    browser to worker   {"read": "native id"}    read this session next, because a person has opened it
                        {"typing": true}         rest for a moment, because a person is typing a search
                        {"active": true}         do not pack or scan for a moment, because a person is pressing keys
                        end of file              the browser is gone: stop
    worker to browser   {"event": "ready"}       the store can be opened
                        {"event": "progress", "done": 3, "total": 9, "found": {"Codex": 9}}
                        {"event": "idle", "found": {"Codex": 9}}
                        {"event": "error", "message": "one sentence"}

Several workers of one store take turns: only the one that holds the sync lock imports. `backscroll sync --follow` runs
the same loop without a browser.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from store import sources
from store.config import get_setting
from store.errors import Busy, StoreError, WriteFailed
from store.paths import load_config
from store.sources.kit.locator import is_url
from store.store import Store
from store.sync.agent_processes import update_processes
from store.sync.child_process import ReaderProcesses
from store.sync.disk_space import pack_store
from store.sync.quick_index import prepare_readers
from store.sync.refresh import sync_targets
from store.sync.targets import Progress, Report, Target, discover_targets
from store.sync.tuning import tune_worker
from store.sync.watch import StoreWatcher
from store.usage.stale import count_without_usage

CHECK_ALL_SECONDS = 15.0
"""All stores are checked this often, since the system does not report what another machine writes."""

SERVER_SECONDS = 2.0
"""Database servers, which cannot be watched, are asked this often."""

REST_SECONDS = 0.3
"""The shortest time between two syncs."""

TEAM_RETRY_SECONDS = 5.0
"""The server of a team is tried again this often when it cannot be reached."""

MAX_PROCESSOR_SHARE = 1 / 8
"""Checking stores that did not change takes at most this share of one processor."""

MAX_PACKING_SHARE = 1 / 2
"""Packing the store, when nothing else is to be done, takes at most this share of one processor."""

TYPING_SECONDS = 1.0
"""An import rests this long after each letter of a search: it would take processor and caches from the answers."""

REST_STEP_SECONDS = 0.05
"""A rest ends so soon after a session was opened, which must be read next."""

MAX_REST_SECONDS = 3.0
"""An import goes on after this time, even if the person still types."""

IDLE_REST_SECONDS = 5.0
"""Packing and scanning, which are never urgent, rest this long after each key: the browser reads its list again when
the store changes."""

EXIT_SECONDS = 2.0
"""The process ends after this time even if an import is in the middle of a large session."""


class Follower:
    """Syncs again and again: everything once, then the stores in which something changed."""

    def __init__(
        self,
        store: Store,
        report_progress: Callable[[Progress], object],
        source_name: str | None = None,
        processes: ReaderProcesses | None = None,
    ) -> None:
        self._store = store
        self._processes = processes
        self._source_name = source_name
        self._report_progress = report_progress
        self._watcher = StoreWatcher()
        self._reports: dict[str, Report] = {}
        self._all_due_at = 0.0
        self._is_stopped = threading.Event()
        self._server_addresses: set[str] = set()
        self._priority_ids: set[str] = set()
        self._typed_at = self._active_at = float("-inf")
        self._packing: Iterator[None] = iter(())
        "Packs the store in short steps. It ends when there is nothing left to pack."
        self._has_derived = False
        "Is true when the usage of older sessions was derived since the last sync."

    def run(self, report_idle: Callable[[bool], object] = bool) -> None:
        """Sync until `stop` is called. After each sync, report whether anything changed."""
        is_first = True
        try:
            while not self._is_stopped.is_set():
                began = time.thread_time()
                has_changed = self._sync_once()
                if has_changed or is_first:
                    self._packing, is_first = self._idle_work(), False
                report_idle(has_changed or self._has_derived)
                self._has_derived = False
                if self._is_stopped.is_set():
                    return
                self._wait(time.thread_time() - began)
        finally:
            self._watcher.close()

    def stop(self) -> None:
        self._is_stopped.set()
        self._watcher.wake()

    def read_next(self, native_id: str) -> None:
        """Read this session before the others, and now."""
        self._typed_at = float("-inf")
        self._priority_ids.add(native_id)

    def give_way(self, *, is_typing: bool) -> None:
        """Rest for a moment, because a person is pressing keys. An import rests only if they type a search."""
        self._active_at = time.monotonic()
        if is_typing:
            self._typed_at = self._active_at

    def count_sessions(self) -> dict[str, int]:
        """Return how many sessions were found, by the label of their agent."""
        counts: dict[str, int] = {}
        for report in self._reports.values():
            label = sources.source_label(report.source)
            counts[label] = counts.get(label, 0) + report.seen
        return counts

    def _sync_once(self) -> bool:
        """Sync what is due, and return whether anything was read."""
        has_changed = False
        try:
            for progress in sync_targets(self._store, self._due_targets(), self._priority_ids, self._processes):
                if self._is_stopped.is_set():
                    break
                before = self._reports.get(progress.report.locator)
                self._reports[progress.report.locator] = progress.report
                is_new = before is None or before.seen != progress.report.seen
                if is_new or progress.report.new or progress.report.updated or progress.done < progress.total:
                    has_changed = True
                    self._report_progress(progress)
                    if progress.done:  # the sessions are listed; until then, a search does not find all of them
                        self._rest_while_typing()
            update_processes(self._store)
        except Busy:
            self._all_due_at = 0.0  # another sync holds the lock; try again soon
        return has_changed

    def _rest_while_typing(self) -> None:
        """Wait while a person types. The import has committed what it read, so that it holds no lock meanwhile."""
        longest = time.monotonic() + MAX_REST_SECONDS
        while time.monotonic() < min(self._typed_at + TYPING_SECONDS, longest):
            if self._is_stopped.wait(REST_STEP_SECONDS):
                return

    def _due_targets(self) -> Iterator[Target]:
        """Yield the targets to sync: all of them from time to time, in between those that are active."""
        if time.monotonic() < self._all_due_at and self._watcher.is_watching:
            yield from discover_targets(
                self._source_name,
                store=self._store,
                addresses=self._watcher.active_addresses() | self._server_addresses,
            )
            return
        self._all_due_at = time.monotonic() + CHECK_ALL_SECONDS
        addresses: list[str] = []
        for target in discover_targets(self._source_name, store=self._store):
            addresses.append(target.address)
            yield target
        self._server_addresses = set(filter(is_url, addresses))
        if self._watcher.watch(addresses):
            # What changed since the stores were checked and before they were watched is found by another check.
            self._all_due_at = time.monotonic() + REST_SECONDS

    def _wait(self, processor_seconds: float) -> None:
        self._is_stopped.wait(max(REST_SECONDS, min(processor_seconds / MAX_PROCESSOR_SHARE, CHECK_ALL_SECONDS)))
        if self._watcher.is_watching and not self._watcher.active_addresses():
            longest = SERVER_SECONDS if self._server_addresses else CHECK_ALL_SECONDS
            due_at = min(self._all_due_at, time.monotonic() + longest)
            if not self._is_person_active:
                self._pack_until(due_at)
            self._watcher.wait_for_change(max(due_at - time.monotonic(), 0))

    def _idle_work(self) -> Iterator[None]:
        """Return what is done when nothing is to be read, in short steps."""
        return chain(self._derive_usage(), pack_store(self._store), self._scan_for_leaks())

    def _scan_for_leaks(self) -> Iterator[None]:
        with suppress(StoreError):  # `backscroll leaks` reports it
            if get_setting(load_config(), "leaks.idle", bool):
                yield from self._store.leaks.begin_scan(is_idle=True).steps()

    def _derive_usage(self) -> Iterator[None]:
        """Derive the usage of sessions that were stored before it was kept, one in each step."""
        if not count_without_usage(self._store):
            return
        from store.usage.rederive import rederive_usage  # needed once in the life of a store

        for done, total in rederive_usage(self._store):
            self._report_progress(Progress(Report("usage", ""), done, total))
            yield
        self._has_derived = True
        self._watcher.wake()

    def _pack_until(self, due_at: float) -> None:
        """Pack the store until a sync is due, a foreign store changes, or nothing is left to pack."""
        began = time.monotonic()
        with suppress(WriteFailed):  # the next sync reports it
            for _ in self._packing:
                self._is_stopped.wait((time.monotonic() - began) * (1 / MAX_PACKING_SHARE - 1))
                began = time.monotonic()
                is_interrupted = self._watcher.active_addresses() or self._is_person_active
                if self._is_stopped.is_set() or is_interrupted or began >= due_at:
                    return

    @property
    def _is_person_active(self) -> bool:
        return time.monotonic() < self._active_at + IDLE_REST_SECONDS


# ── the process ───────────────────────────────────────────────────────────────────────────────────


def main(path: str) -> None:
    """Run the worker until stdin ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C in the terminal is meant for the browser
    tune_worker()
    try:
        with ReaderProcesses() as processes:
            if not Path(path).exists():
                prepare_readers(processes)  # they read while the store is created
            with Store.open(Path(path)) as store:
                _send(event="ready")
                _follow(store, _read_commands(), processes)
    except StoreError as reason:
        _send(event="error", message=str(reason))
    except BrokenPipeError:
        pass  # the browser is gone
    os._exit(0)


def _follow(store: Store, commands: Iterator[Mapping[str, Any]], processes: ReaderProcesses) -> None:
    def report_progress(progress: Progress) -> None:
        _send(event="progress", done=progress.done, total=progress.total, found=follower.count_sessions())

    last_counts: list[Mapping[str, int]] = []

    def report_idle(has_changed: bool) -> None:
        counts = follower.count_sessions()
        if has_changed or [counts] != last_counts:
            last_counts[:] = [counts]
            _send(event="idle", found=counts)

    follower = Follower(store, report_progress, processes=processes)
    threading.Thread(target=_obey_commands, args=(follower, commands), daemon=True).start()
    threading.Thread(target=_exchange_with_team, args=(store,), daemon=True).start()
    follower.run(report_idle)


def _exchange_with_team(store: Store) -> None:
    """Exchange changes with the team of the store, if it has one. `backscroll team status` shows what goes wrong."""
    while True:
        with suppress(StoreError):
            if store.team.is_member:
                for _ in store.team.follow(SERVER_SECONDS):
                    pass
        time.sleep(TEAM_RETRY_SECONDS)


def _obey_commands(follower: Follower, commands: Iterator[Mapping[str, Any]]) -> None:
    for command in commands:
        if isinstance(native_id := command.get("read"), str):
            follower.read_next(native_id)
        if command.get("typing") or command.get("active"):
            follower.give_way(is_typing=bool(command.get("typing")))
    follower.stop()
    time.sleep(EXIT_SECONDS)
    os._exit(0)  # SQLite rolls an unfinished transaction back


def _read_commands() -> Iterator[Mapping[str, Any]]:
    for line in sys.stdin:
        try:
            command = json.loads(line)
        except ValueError:
            continue
        if isinstance(command, dict):
            yield command


def _send(**message: object) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
