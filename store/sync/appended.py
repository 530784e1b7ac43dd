"""Scans files that grow, and decides for each session whether it is unchanged, has grown, or must be read again."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from store.sources.contract import Batch, SessionRef, SourceReader


class KnownSession(NamedTuple):
    "Describes a session that the store has."

    key: int
    stamp: str
    gone: bool
    "Is True when its source does not have it any more."
    is_read: bool = True
    "Is False while the session is only in the quick index, without entries."


AppendedBatches = dict[str, Sequence[Batch]]


@dataclass(slots=True)
class ScanResult:
    """Holds what a scan found: all sessions, and what was appended to some of them."""

    refs: list[SessionRef] = field(default_factory=list)
    appended: AppendedBatches = field(default_factory=dict)
    "Holds the new batches of sessions that have grown, by native id. The others are read from their beginning."
    unaffected: dict[str, int] = field(default_factory=dict)
    "Holds the keys of unchanged sessions in files that have grown, by native id."


def scan_incrementally(
    reader: SourceReader, known: Mapping[str, KnownSession], stamp_prefix: str, load_mark: Callable[[int], str]
) -> ScanResult:
    """Return the sessions that exist, without opening files that did not change.

    Stamps that were made by the current version of the reader begin with `stamp_prefix`.
    """
    main_refs = {ref.native_id: ref for ref in reader.scan_files() or ()}
    branches_by_main: dict[str, list[str]] = {}
    for native_id, session in known.items():
        if native_id not in main_refs and not session.gone:
            branches_by_main.setdefault(find_main_session(native_id, main_refs), []).append(native_id)
    result = ScanResult()
    for native_id, ref in main_refs.items():
        result.refs.append(ref)
        branches = branches_by_main.get(native_id, ())
        stored = known.get(native_id, KnownSession(0, "", False))
        if stored.gone or stored.stamp != stamp_prefix + ref.stamp:
            mark = load_mark(stored.key) if stored.stamp.startswith(stamp_prefix) and not stored.gone else ""
            batches = reader.read_appended(ref, mark) if mark else None
            if batches is None:
                result.refs += reader.scan_branches(ref)
                continue
            result.appended[native_id] = batches
            unaffected = [branch for branch in branches if known[branch].stamp == stored.stamp]
            result.unaffected |= {branch: known[branch].key for branch in unaffected}
        result.refs += [SessionRef(branch, ref.stamp, ref.updated_at) for branch in branches]
    return result


def find_main_session(native_id: str, main_ids: Container[str]) -> str:
    """Return the main session of the file that a branch is in, by the prefix of its id, or an empty string."""
    while native_id and native_id not in main_ids:
        native_id = native_id.rpartition("/")[0]
    return native_id
