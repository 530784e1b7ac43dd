"""This module defines a rule: how one kind of secret looks, and how sure a match is."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from store.leaks.checks import is_placeholder
from store.leaks.token_shape import TokenShape, list_characters

MASK = "••••••••"

_NAME_TAIL = r"[0-9A-Za-z_. \-]{0,30}"
_ASSIGNMENT = r"[\\\"'`\])]{0,4}\s{0,3}(?:=>|:=|[:=,(])\s{0,3}[\\\"'`]{0,4}"
"""Match what is between the name of a value and the value, in code, JSON, YAML, shells and JSON inside of JSON."""


class Tier(enum.StrEnum):
    """Says how sure it is that a match is a secret. The order is from sure to unsure."""

    CERTAIN = "certain"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        return list(Tier).index(self)


@dataclass(frozen=True, slots=True)
class Rule:
    """Describes one kind of secret. The pattern's first group is the secret itself."""

    id: str
    tier: Tier
    keywords: tuple[str, ...]
    """Are texts in lower case. Where none of them occurs, the pattern is not tried."""
    pattern: str
    source: str
    """Names the documentation that describes this kind."""
    example: str
    """Is a made-up text in which the rule finds a secret."""
    starts_with_keyword: bool = True
    """Says that a match begins where a keyword does. Otherwise it is searched around the keyword."""
    needs_boundary: bool = True
    """Says that a letter or digit right before the keyword makes the match part of something else."""
    may_not_follow: str = ""
    """Are the characters that would make the token longer than its kind."""
    add_checksum: Callable[[str], str] | None = None
    """Returns a value with the right checksum in place of its own. A wrong one makes the match only possible."""
    is_harmless: Callable[[str], bool] = is_placeholder
    """Tells whether a value is an example and no secret."""
    is_builtin: bool = False
    """Says that the rule is used even without the extra `leaks`."""
    prefix: str = ""
    """Is how every token of this kind begins. It is no secret, and the mask shows it."""


def token(
    rule_id: str,
    shape: str,
    source: str,
    tier: Tier = Tier.CERTAIN,
    *,
    add_checksum: Callable[[str], str] | None = None,
    is_builtin: bool = False,
) -> Rule:
    """Make a rule for tokens that a literal text in their shape identifies."""
    parsed = TokenShape.parse(shape)
    example = parsed.make_example(rule_id)
    return Rule(
        rule_id,
        tier,
        keywords=((parsed.prefix or parsed.longest_literal).lower(),),
        pattern=f"({parsed.pattern()})",
        source=source,
        example=add_checksum(example) if add_checksum else example,
        starts_with_keyword=bool(parsed.prefix),
        needs_boundary=bool(parsed.prefix),
        may_not_follow=parsed.last_alphabet,
        add_checksum=add_checksum,
        is_builtin=is_builtin,
        prefix=parsed.prefix,
    )


def named(rule_id: str, names: str, shape: str, source: str, tier: Tier = Tier.LIKELY) -> Rule:
    """Make a rule for values that nothing but the name before them identifies: `datadog_api_key = …`."""
    keywords = tuple(names.split())
    parsed = TokenShape.parse(shape)
    alternatives = "|".join(keyword.replace(".", r"\.") for keyword in keywords)
    return Rule(
        rule_id,
        tier,
        keywords=keywords,
        pattern=f"(?i:{alternatives}){_NAME_TAIL}{_ASSIGNMENT}({parsed.pattern()})",
        source=source,
        example=f'{keywords[0]}_key = "{parsed.make_example(rule_id)}"',
        needs_boundary=False,
        may_not_follow=list_characters("word"),
        prefix=parsed.prefix,
    )
