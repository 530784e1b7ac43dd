"""Files that grow, again and again: which of their sessions are as they were, which go on, which must be read anew."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from store.sources.contract import Batch, Growing, Ref


class Known(NamedTuple):
    "A session that the store has."

    key: int
    stamp: str
    gone: bool
    "From its source."
    is_read: bool = True
    "False of what was only skimmed, and of which nothing was read yet."


Grown = dict[str, Sequence[Batch]]


@dataclass(slots=True)
class Followed:
    refs: list[Ref] = field(default_factory=list)
    grown: Grown = field(default_factory=dict)
    "What came since, of sessions that need not be read from their beginning, by native id."
    calm: dict[str, int] = field(default_factory=dict)
    "The sessions beside them that it does not concern, with their keys."


def follow(opened: Growing, known: Mapping[str, Known], reader: str, mark_of: Callable[[int], str]) -> Followed:
    """What there is, without opening a file that is as it was. The stamps that the reader made begin with its name."""
    heads = {ref.native_id: ref for ref in opened.heads()}
    inside: dict[str, list[str]] = {}
    for native, session in known.items():
        if native not in heads and not session.gone:
            inside.setdefault(head_of(native, heads), []).append(native)
    found = Followed()
    for native, ref in heads.items():
        found.refs.append(ref)
        had = known.get(native, Known(0, "", False))
        if had.gone or had.stamp != reader + ref.stamp:
            mark = mark_of(had.key) if had.stamp.startswith(reader) and not had.gone else ""
            grown = opened.go_on(ref, mark) if mark else None
            if grown is None:
                found.refs += opened.beside(ref)
                continue
            found.grown[native] = grown
            calm = [other for other in inside.get(native, ()) if known[other].stamp == had.stamp]
            found.calm |= {other: known[other].key for other in calm}
        found.refs += [Ref(other, ref.stamp, ref.updated_at) for other in inside.get(native, ())]
    return found


def head_of(native: str, heads: Container[str]) -> str:
    """The session after which one is named that stands in the same file; empty when there is none."""
    while native and native not in heads:
        native = native.rpartition("/")[0]
    return native
