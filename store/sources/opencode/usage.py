"""This module reads the usage in a step or a message of opencode. It counts cached tokens apart, for every vendor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from store.errors import BadValue
from store.model.entry import Json
from store.model.usage import Usage, as_micro_dollars, as_tokens, mark_cache_write
from store.sources.kit.jsonl import as_dict, as_str
from store.text.validate import parse


def read_usage(data: Mapping[str, Json], message: Mapping[str, Json]) -> Usage | None:
    """Return the usage of a step, or of a message without steps. The message names the model.

    Some releases include reasoning in the output and others do not; the total shows which.
    """
    tokens = as_dict(data.get("tokens"))
    if not tokens:
        return None
    cache = as_dict(tokens.get("cache"))
    counts = [as_tokens(tokens.get(name)) for name in ("input", "output", "reasoning")]
    reads, writes = as_tokens(cache.get("read")), as_tokens(cache.get("write"))
    input_tokens, output, reasoning = counts
    total = as_tokens(tokens.get("total")) or 0
    is_apart = total >= sum(count or 0 for count in (*counts, reads, writes))
    return mark_cache_write(
        Usage(
            input_tokens,
            reads,
            writes,
            output=output if output is None or not is_apart else output + (reasoning or 0),
            reasoning=reasoning,
            model=as_str(message.get("modelID")) or as_str(as_dict(message.get("model")).get("id")),
            provider=as_str(message.get("providerID")) or as_str(as_dict(message.get("model")).get("providerID")),
            response_id=_identify(message, counts),
            cost=as_micro_dollars(data.get("cost")),
        )
    )


def _identify(message: Mapping[str, Json], counts: Iterable[int | None]) -> str:
    """Return what a fork's copy of a message has in common with the original, which is all but the ids.

    The time is in milliseconds, and the numbers distinguish the steps of one message.
    """
    created = as_dict(message.get("time")).get("created")
    return f"opencode {created} {'/'.join(map(str, counts))}" if created else ""


def read_recorded_usage(records: Iterable[tuple[int, Json]]) -> Iterator[tuple[int, Usage]]:
    """Yield the usage in stored records: rows of the database, or JSON of files. A message follows its parts."""
    steps: dict[str, list[tuple[int, Mapping[str, Json]]]] = {}
    for key, record in records:
        row = as_dict(record)
        data = _parse_data(row)
        if message_id := as_str(row.get("message_id")) or as_str(row.get("messageID")):
            if data.get("type") == "step-finish":
                steps.setdefault(message_id, []).append((key, data))
        else:
            yield from _read_all(steps.pop(as_str(row.get("id")), [(key, data)]), data)
    for own in steps.values():
        yield from _read_all(own, {})


def _read_all(
    recorded: Iterable[tuple[int, Mapping[str, Json]]], message: Mapping[str, Json]
) -> Iterator[tuple[int, Usage]]:
    for key, data in recorded:
        if (usage := read_usage(data, message)) is not None:
            yield key, usage


def _parse_data(row: Mapping[str, Json]) -> Mapping[str, Json]:
    """Return what a row of the database holds. The JSON of a file is no row."""
    if not isinstance(text := row.get("data"), str):
        return row
    try:
        return as_dict(parse(text))
    except BadValue:
        return {}
