"""Checks the table of rules: every kind finds its example, says where it comes from, and cannot be confused."""

from __future__ import annotations

import re

import pytest

from store.leaks.checks import add_grafana_checksum, compute_checksum
from store.leaks.rule_table import RULES
from store.leaks.rules import Tier
from store.leaks.scanner import Scanner, load_scanner

SCANNER = load_scanner()


@pytest.fixture
def plain_scanner() -> Scanner:
    return Scanner([rule for rule in RULES if rule.is_builtin], is_complete=False)


def test_the_extra_is_installed_for_the_tests() -> None:
    assert SCANNER.is_complete
    assert SCANNER.limits == ""


def test_there_are_at_least_150_kinds_with_names_of_their_own() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES) >= 150


def test_every_rule_finds_its_example_in_a_sentence_and_in_json() -> None:
    for rule in RULES:
        for text in (f"It said: {rule.example} and ended.", f'{{"text":"It said:\\n{rule.example}\\nand"}}'):
            found = [match for match in SCANNER.scan(text) if match.rule == rule.id]
            assert [match.tier for match in found] == [rule.tier], text


def test_a_token_of_buildkite_may_begin_with_the_number_of_its_organisation() -> None:
    body = "4f6ccde8c73e26244d73" + "c5a77c91c242c0c818ce"
    for token in (f"bkua_{body}", f"bkua_MTA.{body}"):
        assert [(match.rule, match.end) for match in SCANNER.scan(token)] == [("buildkite-user-token", len(token))]


def test_every_rule_names_its_source_and_has_keywords_in_lower_case() -> None:
    for rule in RULES:
        assert len(rule.source) >= 5, rule.id
        assert rule.keywords, rule.id
        assert all(len(keyword) >= 3 and keyword == keyword.lower() for keyword in rule.keywords), rule.id


def test_every_pattern_is_also_one_for_python() -> None:
    for rule in RULES:
        re.compile(rule.pattern.encode())


def test_the_plain_scanner_finds_the_examples_of_its_rules_and_says_that_it_is_limited(plain_scanner: Scanner) -> None:
    builtin = [rule for rule in RULES if rule.is_builtin]
    assert 10 <= len(builtin) <= 40
    for rule in builtin:
        assert rule.id in [match.rule for match in plain_scanner.scan(f"a {rule.example} b")], rule.id
    assert f"Only {len(builtin)} of {len(RULES)} rules" in plain_scanner.limits


def test_a_wrong_checksum_makes_a_token_only_possible() -> None:
    body = "k3JdP0sLmQ7vRtX2yZb9NcWe5Hf8Ga"
    right, wrong = f"ghp_{body}{compute_checksum(body)}", f"ghp_{body}{compute_checksum(body[::-1])}"
    assert [match.tier for match in SCANNER.scan(right)] == [Tier.CERTAIN]
    assert [match.tier for match in SCANNER.scan(wrong)] == [Tier.POSSIBLE]


def test_the_checksum_of_grafana_is_the_crc32_of_prefix_and_secret() -> None:
    # Grafana's own tests have a token that says it is invalid, with this checksum.
    assert add_grafana_checksum(f"glsa_iNValIdinValiD{'invalid' * 2}inva_").endswith("_5b582697")
    right = add_grafana_checksum("glsa_k3JdP0sLmQ7vRtX2yZb9NcWe5Hf8GaUx_00000000")
    assert [match.tier for match in SCANNER.scan(right)] == [Tier.CERTAIN]
    assert [match.tier for match in SCANNER.scan(right[:-8] + "0a1b2c3d")] == [Tier.POSSIBLE]


def test_the_checksum_is_the_crc32_in_base_62() -> None:
    # 0xCBF43926 is the well-known CRC32 of these digits.
    assert compute_checksum("123456789") == "3jZRME"


@pytest.mark.parametrize("letter", ["a", "A", "x", "X", "0", "*"])
def test_no_kind_takes_a_repeated_letter_for_a_secret(letter: str) -> None:
    for rule in RULES:
        match = next(match for match in SCANNER.scan(rule.example) if match.rule == rule.id)
        value = rule.example[match.start : match.end]
        body = re.sub(r"[\w+/=-]", letter, value.removeprefix(rule.prefix))
        prefix = rule.prefix if value.startswith(rule.prefix) else ""
        text = f"{rule.example[: match.start]}{prefix}{body}{rule.example[match.end :]}"
        assert [found for found in SCANNER.scan(text) if found.tier != Tier.POSSIBLE] == [], text
