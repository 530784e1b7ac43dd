"""Checks what the scanner finds, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from store.errors import ScanFailed
from store.leaks.rule_table import RULES, RULES_BY_ID
from store.leaks.rules import MASK, Tier
from store.leaks.scanner import MAX_SECRET_BYTES, FastEngine, PlainEngine, Scanner, has_extra, load_scanner, mask

SCANNER = load_scanner()
AWS_KEY = RULES_BY_ID["aws-access-key"].example


def find(text: str, scanner: Scanner = SCANNER) -> list[tuple[str, str]]:
    return [(match.rule, text[match.start : match.end]) for match in scanner.scan(text)]


def test_positions_count_characters_also_after_other_scripts() -> None:
    text = f"日本語 é 🔑 {AWS_KEY} ü {AWS_KEY}"
    assert find(text) == [("aws-access-key", AWS_KEY)] * 2


def test_lone_surrogates_do_not_stop_a_scan() -> None:
    assert find(f"\ud800 {AWS_KEY} \udfff") == [("aws-access-key", AWS_KEY)]


@pytest.mark.parametrize(
    "text",
    [
        "AKIAIOSFODNN7EXAMPLE",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "Authorization: Bearer <YOUR_TOKEN_GOES_HERE>",
        "Authorization: Bearer your-token-goes-here-please",
        "postgres://user:password@localhost/db",
        "postgres://user:${DB_PASSWORD}@localhost/db",
        "https://example.org:8080/a@b",
        "api_key = os.environ['SERVICE_API_KEY']",
        'password: "hunter2"',
        "secret_key: process.env.SECRET_KEY_BASE",
        '"input_tokens": 123456789012',
        "[redacted: aws-access-key #0123456789abcdef]",
        "Bearer [redacted: bearer-header #0123456789abcdef]",
        "postgres://user:[redacted: url-password #0123456789ab]@host/db",
        f"prefix{AWS_KEY}",
        f"{AWS_KEY}A",
        "-----BEGIN PRIVATE KEY-----\n...\n-----END PRIVATE KEY-----",
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkpvaG4gRG9lIn0." + "q" * 43,
    ],
)
def test_examples_and_ordinary_text_are_no_secrets(text: str) -> None:
    assert find(text) == []


def test_a_token_at_the_end_of_a_sentence_loses_the_full_stop() -> None:
    token = RULES_BY_ID["gitlab-personal-access-token"].example.rstrip(".")
    assert find(f"I used {token}.") == [("gitlab-personal-access-token", token)]


def test_the_surest_of_several_rules_wins() -> None:
    assert find(f'client_secret = "{AWS_KEY}"') == [("aws-access-key", AWS_KEY)]
    assert find(f"https://bot:{AWS_KEY}@git.internal/x") == [("aws-access-key", AWS_KEY)]


def test_a_private_key_is_found_across_lines_and_escapes() -> None:
    body = "MIIEowIBAAKCAQEA7bq2Vd9Zk1s4TtX0uFhGy8Rj3LwPn6Mc5EaQxYiO"
    for newline in ("\n", "\r\n", "\\n", "\\\\n"):
        text = newline.join(
            [f"{'-' * 5}BEGIN RSA PRIVATE KEY{'-' * 5}", body, body, f"{'-' * 5}END RSA PRIVATE KEY-----"]
        )
        ((rule, value),) = find(text)
        assert rule == "rsa-private-key"
        assert value.count(body) == 2


def test_values_of_secrets_and_of_the_environment_are_found() -> None:
    environment = {
        "DEPLOY_TOKEN": "violet-otter-42",
        "PATH": "/usr/bin:/usr/local/bin",
        "SSH_AUTH_SOCK": "/run/agent.sock",
    }
    scanner = load_scanner(["Öffne (dich)!", "short"], environment)
    text = "say Öffne (dich)! then violet-otter-42 or short, /run/agent.sock, öffne (dich)!"
    assert find(text, scanner) == [("own-secret", "Öffne (dich)!"), ("environment-variable", "violet-otter-42")]
    assert {match.tier for match in scanner.scan(text)} == {Tier.CERTAIN}


def test_a_secret_that_is_a_part_of_another_does_not_hide_its_rest() -> None:
    scanner = load_scanner(["hunter2x", "hunter2x-and-more", "er2x-and", "aaaaaaaa"])
    text = "say hunter2x-and-more, and xaaaaaaaaaaaaaaaaaay"
    found = [text[match.start : match.end] for match in scanner.scan(text)]
    assert found == ["hunter2x-and-more", "aaaaaaaa", "aaaaaaaa"]


@pytest.mark.parametrize("makes_engine", [FastEngine, PlainEngine])
def test_every_place_of_a_keyword_is_found_once(makes_engine: type[FastEngine | PlainEngine]) -> None:
    if makes_engine is FastEngine and not has_extra():
        pytest.skip("the extra is not installed")
    keywords = [b"sk-", b"sk-proj-", b"aaaa"]
    text = b"aaaaaaaaa" + b"sk-proj-" * 100_000
    found = sorted(makes_engine(keywords).find_keywords(text))
    starts = range(9, len(text), 8)
    expected = [(0, start, start + 3) for start in starts] + [(1, start, start + 8) for start in starts]
    assert found == [*expected, (2, 0, 4), (2, 4, 8)]


def test_a_mask_shows_only_what_all_tokens_of_a_kind_share() -> None:
    assert mask("github-oauth-token") == "gho_" + MASK
    assert mask("datadog-api-key") == mask("own-secret") == MASK


def test_a_failing_scan_raises_an_error_without_the_text() -> None:
    scanner = Scanner(load_scanner().rules, is_complete=True)

    def fail(data: bytes) -> list[tuple[int, int, int]]:
        raise ValueError(data)

    scanner._find_keywords = fail
    with pytest.raises(ScanFailed, match=r"could not be scanned \(ValueError\)") as caught:
        scanner.scan(AWS_KEY)
    assert AWS_KEY not in str(caught.value)


def test_a_hostile_text_takes_linear_time() -> None:
    # Each keyword begins a match that could go on to the end of the text.
    text = "bedrock-api-key-" * 20_000
    assert all(match.end - match.start <= MAX_SECRET_BYTES for match in SCANNER.scan(text))


def test_without_the_extra_a_few_rules_are_used() -> None:
    code = """
import sys
sys.modules["re2"] = None
from store.leaks.scanner import load_scanner
scanner = load_scanner()
print(scanner.is_complete, len(scanner.rules), scanner.limits)
"""
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    count = sum(rule.is_builtin for rule in RULES)
    assert output.startswith(f"False {count} Only {count} of {len(RULES)} rules were used.")
