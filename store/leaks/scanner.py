"""This module finds secrets in texts.

An automaton finds the keywords of all rules in one pass over the text. A rule's pattern is tried only where one of its
keywords occurs, so hundreds of rules cost hardly more than one. Both need the extra `leaks`. Without it, a few rules
run with Python's own `re`; then `Scanner.is_complete` is false, and every output must say so with `Scanner.limits`.
"""

from __future__ import annotations

import heapq
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, Protocol

from store.errors import ScanFailed
from store.leaks.checks import is_placeholder_password
from store.leaks.rule_table import RULES, RULES_BY_ID
from store.leaks.rules import MASK, Rule, Tier

OWN_SECRET = "own-secret"  # noqa: S105 - the name of a rule
ENVIRONMENT_VARIABLE = "environment-variable"

MIN_VALUE_CHARS = 8
"""Shorter values of secrets are not searched, because they would be found in ordinary words."""

MAX_SECRET_BYTES = 65_536
"""Limits what one match can hold, so that a hostile text takes no more than linear time."""

_WINDOW_BYTES = 256 * 1024
"""Keywords are searched in windows of this size."""

_CONTEXT_BYTES = 120
"""How far before its keyword a token may begin."""

_WORD_BYTES = frozenset(b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")
_ESCAPES = frozenset(b"nrtbf")
_CREDENTIAL_NAME = re.compile(r"(?i)key|token|secret|passw|pwd|credential|auth")
_INCOMPLETE = "Only {count} of {total} rules were used. Install `backscroll[leaks]` for all of them."


@dataclass(frozen=True, slots=True)
class Match:
    """Is one secret in a text: the rule that found it, and where the secret itself begins and ends."""

    rule: str
    tier: Tier
    start: int
    end: int

    def move(self, by: int) -> Match:
        return Match(self.rule, self.tier, self.start + by, self.end + by)


class Engine(Protocol):
    """Finds keywords and compiles patterns, in bytes."""

    def __init__(self, keywords: list[bytes]) -> None: ...

    @staticmethod
    def compile(pattern: bytes) -> Any: ...

    def find_keywords(self, data: bytes) -> Iterable[tuple[int, int, int]]:
        """Return the number of each keyword that occurs, and where it begins and ends."""
        ...


class FastEngine:
    """Uses ahocorasick-rs and RE2."""

    def __init__(self, keywords: list[bytes]) -> None:
        import ahocorasick_rs

        self._runs = [(number, keyword) for number, keyword in enumerate(keywords) if _is_run(keyword)]
        self._numbers = [number for number, keyword in enumerate(keywords) if not _is_run(keyword)]
        others = [keywords[number] for number in self._numbers]
        self._longest = max(map(len, others), default=0)
        self._automaton = ahocorasick_rs.BytesAhoCorasick(others, implementation=ahocorasick_rs.Implementation.DFA)

    @staticmethod
    def compile(pattern: bytes) -> Any:
        import re2

        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False  # a pattern may contain a secret
        return re2.compile(pattern, options)

    def find_keywords(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        runs = [_find_keyword(number, keyword, data) for number, keyword in self._runs]
        return heapq.merge(self._find_others(data), *runs, key=itemgetter(1))

    def _find_others(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        """Yield what the automaton finds, window by window: a list of all would be larger than the text."""
        for window in range(0, len(data), _WINDOW_BYTES):
            part = data[window : window + _WINDOW_BYTES + self._longest]
            for number, start, end in self._automaton.find_matches_as_indexes(part, overlapping=True):
                if start < _WINDOW_BYTES:
                    yield self._numbers[number], window + start, window + end


class PlainEngine:
    """Uses what Python has. It is fast enough for a few keywords."""

    def __init__(self, keywords: list[bytes]) -> None:
        self._keywords = keywords

    @staticmethod
    def compile(pattern: bytes) -> Any:
        return re.compile(pattern)

    def find_keywords(self, data: bytes) -> Iterator[tuple[int, int, int]]:
        for number, keyword in enumerate(self._keywords):
            yield from _find_keyword(number, keyword, data)


def _compile(rule: Rule, engine: type[Engine]) -> Any:
    pattern = _encode(rule.pattern)
    return _compile_once(engine, pattern) if rule.id in RULES_BY_ID else engine.compile(pattern)


@cache
def _compile_once(engine: type[Engine], pattern: bytes) -> Any:
    """Compile a pattern of the table of rules once for each process, because all of them take 45 ms. The values of
    secrets are patterns, too, and are never kept here."""
    return engine.compile(pattern)


def _is_run(keyword: bytes) -> bool:
    """Return whether all characters of a keyword are equal."""
    return len(set(keyword)) == 1


def _find_keyword(number: int, keyword: bytes, data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield all places of a keyword. Of equal characters, base64 has long runs, and would have the keyword at every
    byte: they count once for each of its lengths."""
    step = len(keyword) if _is_run(keyword) else 1
    start = data.find(keyword)
    while start >= 0:
        yield number, start, start + len(keyword)
        start = data.find(keyword, start + step)


@dataclass(frozen=True, slots=True, eq=False)
class _CompiledRule:
    rule: Rule
    pattern: Any
    may_not_follow: frozenset[int]


class Scanner:
    """Finds secrets with a list of rules. One scanner can be used for any number of texts."""

    def __init__(self, rules: Iterable[Rule], *, is_complete: bool) -> None:
        self.is_complete = is_complete
        """Says whether every rule is used. If not, `limits` is a sentence for the person who reads the result."""
        by_keyword: dict[bytes, list[Rule]] = {}
        self.rules = tuple(rules)
        for rule in self.rules:
            for keyword in rule.keywords:
                by_keyword.setdefault(_encode(keyword).lower(), []).append(rule)
        engine: type[Engine] = FastEngine if is_complete else PlainEngine
        self._find_keywords = engine(list(by_keyword)).find_keywords
        compiled = {
            rule.id + rule.pattern: _CompiledRule(rule, _compile(rule, engine), frozenset(rule.may_not_follow.encode()))
            for rule in self.rules
        }
        self._rules = [[compiled[rule.id + rule.pattern] for rule in found] for found in by_keyword.values()]

    @property
    def limits(self) -> str:
        """Say which rules were not used, or nothing if all were."""
        return describe_limits(is_complete=self.is_complete)

    def scan(self, text: str, *, with_overlaps: bool = False) -> list[Match]:
        """Return the secrets in a text, in order. Their positions count characters."""
        data = _encode(text)
        matches = self.scan_bytes(data, with_overlaps=with_overlaps)
        return matches if len(data) == len(text) else list(_count_characters(data, matches))

    def scan_bytes(self, data: bytes, *, with_overlaps: bool = False) -> list[Match]:
        """Return the secrets in UTF-8 text, in order. Their positions count bytes.

        Of matches that overlap, only the surest is returned, unless all are asked for.
        """
        try:
            found = list(self._find_matches(data))
            return sorted(found, key=attrgetter("start")) if with_overlaps else drop_overlaps(found)
        except MemoryError:
            raise
        except Exception as error:
            # The message of another library's error might contain the text, so only its type is reported.
            raise ScanFailed(f"A text of {len(data)} bytes could not be scanned ({type(error).__name__}).") from None

    def _find_matches(self, data: bytes) -> Iterator[Match]:
        # By rule and pattern: one of the store's secrets may be a part of another.
        ends: dict[_CompiledRule, int] = {}
        for number, start, _ in self._find_keywords(data.lower()):
            for compiled in self._rules[number]:
                rule = compiled.rule
                if start < ends.get(compiled, 0):
                    continue
                if rule.starts_with_keyword:
                    if rule.needs_boundary and not _is_boundary(data, start):
                        continue
                    found = compiled.pattern.match(data, start, start + MAX_SECRET_BYTES)
                else:
                    found = compiled.pattern.search(data, max(start - _CONTEXT_BYTES, 0), start + MAX_SECRET_BYTES)
                if found is not None and (match := _judge(compiled, data, *found.span(1))):
                    ends[compiled] = match.end
                    yield match


def load_scanner(values: Iterable[str] = (), environment: Mapping[str, str] | None = None) -> Scanner:
    """Make a scanner with all rules, or with a few if the extra `leaks` is not installed.

    It also finds `values`, such as those of the store's own secrets, and the values of variables in `environment` whose
    names look like those of credentials.
    """
    own_values = {value for value in values if len(value) >= MIN_VALUE_CHARS}
    exact: list[Rule] = []
    for rule, known in ((OWN_SECRET, own_values), (ENVIRONMENT_VARIABLE, _list_credentials(environment or {}))):
        exact += [_exact_rule(rule, form) for form in sorted({form for value in known for form in _list_forms(value)})]
    is_complete = has_extra()
    if not exact:
        return _load_general_scanner(is_complete)
    return Scanner([*list_rules(is_complete=is_complete), *exact], is_complete=is_complete)


@cache
def _load_general_scanner(is_complete: bool) -> Scanner:
    """Make the scanner that knows no values once for each process: a team needs it for each session."""
    return Scanner(list_rules(is_complete=is_complete), is_complete=is_complete)


def list_rules(*, is_complete: bool) -> list[Rule]:
    """Return all rules, or the few that need no extra."""
    return [rule for rule in RULES if is_complete or rule.is_builtin]


def describe_limits(*, is_complete: bool) -> str:
    """Say that only a few rules are used, or nothing if all are."""
    return "" if is_complete else _INCOMPLETE.format(count=len(list_rules(is_complete=False)), total=len(RULES))


def has_extra() -> bool:
    """Return whether the packages of the extra `leaks` are installed."""
    try:
        import ahocorasick_rs  # noqa: F401
        import re2  # noqa: F401
    except ImportError:
        return False
    return True


def mask(rule: str) -> str:
    """Return what may be shown of a secret: how all tokens of its kind begin, and nothing of its own."""
    known = RULES_BY_ID.get(rule)
    return (known.prefix if known else "") + MASK


def _list_credentials(environment: Mapping[str, str]) -> set[str]:
    return {
        value
        for name, value in environment.items()
        if _CREDENTIAL_NAME.search(name)
        and len(value) >= MIN_VALUE_CHARS
        and not value.startswith(("/", "~"))
        and not is_placeholder_password(value)
    }


def _list_forms(value: str) -> set[str]:
    """Return a value as it is, and as it is in JSON that does or does not escape what is not ASCII."""
    return {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]}


def _exact_rule(rule_id: str, value: str) -> Rule:
    return Rule(
        rule_id,
        Tier.CERTAIN,
        keywords=(value,),
        pattern=f"({re.escape(value)})",
        source="",
        example="",
        needs_boundary=False,
        is_harmless=lambda value: False,
    )


def _judge(compiled: _CompiledRule, data: bytes, start: int, end: int) -> Match | None:
    """Return a match if the value at this place is complete and no example."""
    rule = compiled.rule
    if data[end : end + 1] and data[end] in compiled.may_not_follow:
        return None
    if not rule.starts_with_keyword and not _is_boundary(data, start):
        return None
    value = data[start:end].decode("utf-8", "surrogatepass").rstrip(".")
    if rule.is_harmless(value):
        return None
    is_doubtful = rule.add_checksum is not None and rule.add_checksum(value) != value
    tier = Tier.POSSIBLE if is_doubtful else rule.tier
    return Match(rule.id, tier, start, start + len(_encode(value)))


def _is_boundary(data: bytes, start: int) -> bool:
    """Return whether a word can begin here. The letter of an escape like `\\n` in JSON does not count as one."""
    if start == 0 or data[start - 1] not in _WORD_BYTES:
        return True
    return start > 1 and data[start - 1] in _ESCAPES and data[start - 2] == 0x5C


def drop_overlaps(matches: list[Match]) -> list[Match]:
    """Keep the surest of the matches that overlap, and the longest of equally sure ones."""
    kept: list[Match] = []
    for match in sorted(matches, key=lambda match: (match.start, match.tier.rank, -match.end)):
        if not kept or match.start >= kept[-1].end:
            kept.append(match)
        elif (match.tier.rank, kept[-1].end - kept[-1].start) < (kept[-1].tier.rank, match.end - match.start):
            kept[-1] = match
    return kept


def _count_characters(data: bytes, matches: list[Match]) -> Iterator[Match]:
    characters = position = 0
    for match in matches:
        characters += len(data[position : match.start].decode("utf-8", "surrogatepass"))
        length = len(data[match.start : match.end].decode("utf-8", "surrogatepass"))
        yield Match(match.rule, match.tier, characters, characters + length)
        position = match.start


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
