"""Files that grow, again and again: which of their sessions are as they were, which go on, which must be read anew."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from store.sources.contract import Batch, SessionRef, SupportsAppend


class KnownSession(NamedTuple):
    "A session that the store has."

    key: int
    stamp: str
    gone: bool
    "From its source."
    is_read: bool = True
    "False of what was only skimmed, and of which nothing was read yet."


AppendedBatches = dict[str, Sequence[Batch]]


@dataclass(slots=True)
class ScanResult:
    refs: list[SessionRef] = field(default_factory=list)
    appended: AppendedBatches = field(default_factory=dict)
    "What came since, of sessions that need not be read from their beginning, by native id."
    unaffected: dict[str, int] = field(default_factory=dict)
    "The sessions beside them that it does not concern, with their keys."


def scan_incrementally(
    opened: SupportsAppend, known: Mapping[str, KnownSession], reader: str, mark_of: Callable[[int], str]
) -> ScanResult:
    """What there is, without opening a file that is as it was. The stamps that the reader made begin with its name."""
    heads = {ref.native_id: ref for ref in opened.scan_files()}
    inside: dict[str, list[str]] = {}
    for native, session in known.items():
        if native not in heads and not session.gone:
            inside.setdefault(find_main_session(native, heads), []).append(native)
    found = ScanResult()
    for native, ref in heads.items():
        found.refs.append(ref)
        had = known.get(native, KnownSession(0, "", False))
        if had.gone or had.stamp != reader + ref.stamp:
            mark = mark_of(had.key) if had.stamp.startswith(reader) and not had.gone else ""
            grown = opened.read_appended(ref, mark) if mark else None
            if grown is None:
                found.refs += opened.scan_branches(ref)
                continue
            found.appended[native] = grown
            calm = [other for other in inside.get(native, ()) if known[other].stamp == had.stamp]
            found.unaffected |= {other: known[other].key for other in calm}
        found.refs += [SessionRef(other, ref.stamp, ref.updated_at) for other in inside.get(native, ())]
    return found


def find_main_session(native: str, heads: Container[str]) -> str:
    """The session after which one is named that stands in the same file; empty when there is none."""
    while native and native not in heads:
        native = native.rpartition("/")[0]
    return native
