"""This module compares two things: texts in named blocks, or two conversations turn by turn. It is pure.

Comparing texts takes time that grows with the square of their length, so long texts are given old, then new. Turns are
aligned by those that occur once in both conversations, so that ten thousand of them are aligned in a moment.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.formats.file_changes import (
    MAX_COMPARED_CHARACTERS,
    MAX_COMPARED_LINES,
    Hunk,
    compare_texts,
    find_command,
    format_hunk_header,
)
from store.model.entry import (
    Attachment,
    Entry,
    Json,
    Opaque,
    PairedCall,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    readable_text,
)

MAX_SIMILARITY_CHECKS = 40_000
"""Limits the pairs of prompts that are compared word by word between two turns that both sides have."""

SIMILARITY_CHARACTERS = 400
"""Limits the beginning of a prompt whose words are compared."""

SectionKind = Literal["shared", "changed", "left", "right"]
"""Says whether both sides have the same, both have different versions, or only one side has it."""


class Block(NamedTuple):
    """Is a named text of one side, e.g. a turn, or the result of a call."""

    title: str
    text: str
    entry: str | None = None
    "Is the public id of the entry where the block begins."


@dataclass(frozen=True, slots=True)
class Section:
    kind: SectionKind
    left: Block | None
    right: Block | None
    count: int = 1
    "Counts the turns that are shared."
    is_detailed: bool = True
    "Is false if only the beginning of the text was read, because there are very many differences."

    @property
    def title(self) -> str:
        titles = dict.fromkeys(block.title for block in (self.left, self.right) if block is not None)
        return " → ".join(titles)

    @property
    def entry(self) -> str | None:
        return next((block.entry for block in (self.right, self.left) if block is not None and block.entry), None)

    @property
    def is_too_long(self) -> bool:
        """Whether the texts are too long to be compared line by line."""
        texts = [block.text for block in (self.left, self.right) if block is not None]
        lines, characters = sum(text.count("\n") + 1 for text in texts), sum(map(len, texts))
        return len(texts) == 2 and (lines > MAX_COMPARED_LINES or characters > MAX_COMPARED_CHARACTERS)

    def compare(self) -> tuple[Hunk, ...]:
        left, right = (block.text if block is not None else "" for block in (self.left, self.right))
        return tuple(compare_texts(left, right, is_whole=True)) if self.kind != "shared" else ()


@dataclass(frozen=True, slots=True)
class Comparison:
    left: str
    "Names the left side."
    right: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    "Say what was not compared, in sentences."

    @property
    def is_equal(self) -> bool:
        return all(section.kind == "shared" for section in self.sections)

    def count(self, *kinds: SectionKind) -> int:
        return sum(section.count for section in self.sections if section.kind in kinds)


def compare_blocks(left: Sequence[Block], right: Sequence[Block]) -> tuple[Section, ...]:
    """Compare blocks of the same title with each other."""
    lefts, rights = ({block.title: block for block in blocks} for blocks in (left, right))
    return tuple(_compare_pair(lefts.get(title), rights.get(title)) for title in dict.fromkeys([*lefts, *rights]))


def _compare_pair(left: Block | None, right: Block | None) -> Section:
    if left is None or right is None:
        return Section("right" if left is None else "left", left, right)
    return Section("shared" if left.text == right.text else "changed", left, right)


def format_unified(comparison: Comparison) -> str:
    """Return the differences as a unified diff. Its headers name the sides and the sections."""
    lines = [f"--- {_on_one_line(comparison.left)}", f"+++ {_on_one_line(comparison.right)}"]
    for section in comparison.sections:
        for hunk in section.compare():
            header = format_hunk_header(hunk, hunk.old_start or 0, hunk.new_start or 0)
            lines.append(f"{header} {_on_one_line(section.title)}")
            lines += [line.sign + line.text for line in hunk.lines]
    return "".join(f"{line}\n" for line in lines) if not comparison.is_equal else ""


def _on_one_line(text: str) -> str:
    return " ".join(text.split())


# ── aligning turns ────────────────────────────────────────────────────────────────────────────────


class TurnKey(NamedTuple):
    """Describes a turn as far as it must be known to align it."""

    n: int
    prompt: Hashable
    content: Hashable
    words: frozenset[str] = frozenset()
    "Are words of the prompt, by which similar turns are found."


class AlignedTurns(NamedTuple):
    kind: SectionKind
    left: range
    right: range
    "The indexes of the turns. Only shared ones are several."


def align_turns(left: Sequence[TurnKey], right: Sequence[TurnKey]) -> list[AlignedTurns]:
    """Say which turns both conversations share, which have the same or a similar prompt, and which only one has."""
    aligned: list[AlignedTurns] = []
    matches = _match([key.content for key in left], [key.content for key in right])
    left_at = right_at = 0
    for left_index, right_index in [*matches, (len(left), len(right))]:
        aligned += _align_gap(left, right, range(left_at, left_index), range(right_at, right_index))
        left_at, right_at = left_index + 1, right_index + 1
        if left_index == len(left):
            break
        previous = aligned[-1] if aligned else None
        if previous is not None and previous.kind == "shared":
            shared = AlignedTurns("shared", range(previous.left[0], left_at), range(previous.right[0], right_at))
            aligned[-1] = shared
        else:
            aligned.append(AlignedTurns("shared", range(left_index, left_at), range(right_index, right_at)))
    return aligned


def _align_gap(
    left: Sequence[TurnKey], right: Sequence[TurnKey], left_gap: range, right_gap: range
) -> Iterator[AlignedTurns]:
    """Yield the turns between two shared ones: those with the same prompt as pairs, and the others around them."""
    prompts = _match([left[n].prompt for n in left_gap], [right[n].prompt for n in right_gap])
    left_at, right_at = left_gap.start, right_gap.start
    for left_index, right_index in [*prompts, (len(left_gap), len(right_gap))]:
        left_end, right_end = left_gap.start + left_index, right_gap.start + right_index
        yield from _pair_similar(left, right, range(left_at, left_end), range(right_at, right_end))
        if left_index < len(left_gap):
            yield AlignedTurns("changed", range(left_end, left_end + 1), range(right_end, right_end + 1))
        left_at, right_at = left_end + 1, right_end + 1


def _pair_similar(
    left: Sequence[TurnKey], right: Sequence[TurnKey], left_gap: range, right_gap: range
) -> Iterator[AlignedTurns]:
    """Yield the turns of a gap in order: those with a similar prompt as pairs, the others of each side alone."""
    right_at = right_gap.start
    is_small = len(left_gap) * len(right_gap) <= MAX_SIMILARITY_CHECKS
    for n in left_gap:
        rights = range(right_at, right_gap.stop) if is_small else range(0)
        similar = next((m for m in rights if _is_similar(left[n].words, right[m].words)), None)
        if similar is None:
            yield AlignedTurns("left", range(n, n + 1), range(0))
            continue
        yield from (AlignedTurns("right", range(0), range(m, m + 1)) for m in range(right_at, similar))
        yield AlignedTurns("changed", range(n, n + 1), range(similar, similar + 1))
        right_at = similar + 1
    yield from (AlignedTurns("right", range(0), range(m, m + 1)) for m in range(right_at, right_gap.stop))


def _is_similar(left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether at least half of the words are on both sides."""
    return bool(left) and 2 * len(left & right) >= len(left | right)


def list_prompt_words(prompt: str) -> frozenset[str]:
    """Return the words at the beginning of a prompt."""
    return frozenset(re.findall(r"\w+", prompt[:SIMILARITY_CHARACTERS].casefold()))


def _match(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of equal items in order: those that occur once on both sides, and the equal ones around them."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    once = [item for item, count in Counter(left[start:]).items() if count == 1]
    right_counts = Counter(right[start:])
    right_at = {item: n for n, item in enumerate(right)}
    left_at = {item: n for n, item in enumerate(left)}
    anchors = _longest_increasing([(left_at[item], right_at[item]) for item in once if right_counts[item] == 1])
    pairs = [(n, n) for n in range(start)]
    for left_index, right_index in anchors:
        low = pairs[-1] if pairs else (-1, -1)
        if left_index <= low[0] or right_index <= low[1]:
            continue
        first = (left_index, right_index)
        while first[0] - 1 > low[0] and first[1] - 1 > low[1] and left[first[0] - 1] == right[first[1] - 1]:
            first = first[0] - 1, first[1] - 1
        pairs += [(first[0] + n, first[1] + n) for n in range(left_index - first[0] + 1)]
        after = left_index + 1, right_index + 1
        while after[0] < len(left) and after[1] < len(right) and left[after[0]] == right[after[1]]:
            pairs.append(after)
            after = after[0] + 1, after[1] + 1
    return pairs


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs, ordered by their first number, in which the second number increases as well."""
    ordered = sorted(pairs)
    ends: list[int] = []
    tails: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(ordered):
        place = bisect_left(ends, value)
        before.append(tails[place - 1] if place else -1)
        if place == len(ends):
            ends.append(value)
            tails.append(index)
        else:
            ends[place], tails[place] = value, index
    run: list[tuple[int, int]] = []
    index = tails[-1] if tails else -1
    while index >= 0:
        run.append(ordered[index])
        index = before[index]
    return run[::-1]


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


def describe_turn(turn: Turn) -> str:
    """Return everything that was said and done in a turn, as a text to compare."""
    calls = {call.call_id: call for call in turn.tool_calls}
    paragraphs = (describe_part(part, calls) for entry in turn.entries for part in entry.parts)
    return "\n\n".join(filter(None, paragraphs))


def describe_part(part: Part, calls: Mapping[str, PairedCall]) -> str:
    match part:
        case Text(text):
            return text.strip("\n")
        case Thinking(text):
            return f"thinking:\n{text}" if text.strip() else ""
        case ToolCall(call_id, name, arguments):
            call = calls.get(call_id)
            failed = " failed" if call is not None and call.status == "error" else ""
            return f"{name}{failed}:\n{describe_arguments(name, arguments)}"
        case ToolResult(_, result):
            return f"result:\n{readable_text(result)}"
        case Attachment(media_type, name):
            return f"attachment: {name or media_type}"
        case Opaque(kind, value):
            return f"{kind}:\n{readable_text(value)}"
    return ""


def describe_arguments(name: str, arguments: Json) -> str:
    """Return the command of a shell, or one line for each argument. An argument of several lines stands below it."""
    command = find_command(name, arguments)
    if command is not None:
        return command
    if not isinstance(arguments, Mapping):
        return readable_text(arguments)
    return "\n".join(_list_arguments(arguments))


def _list_arguments(arguments: Mapping[str, Json]) -> Iterable[str]:
    for key, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
        yield f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"


def list_call_blocks(call: PairedCall) -> list[Block]:
    entry = call.entry or call.result_entry
    return [
        Block("call", f"{call.name}, {call.status}", entry),
        Block("arguments", describe_arguments(call.name, call.arguments), entry),
        Block("result", readable_text(call.result), call.result_entry or entry),
    ]


def list_entry_blocks(entry: Entry, entry_id: str, calls: Mapping[str, PairedCall]) -> list[Block]:
    """Return the parts of an entry. Parts of the same kind are numbered."""
    blocks: list[Block] = []
    counts: Counter[str] = Counter()
    for part in entry.parts:
        kind = {ToolCall: "call", ToolResult: "result"}.get(type(part), type(part).__name__.lower())
        counts[kind] += 1
        title = kind if counts[kind] == 1 else f"{kind} {counts[kind]}"
        blocks.append(Block(title, describe_part(part, calls), entry_id))
    return blocks or [Block("text", entry.text, entry_id)]
