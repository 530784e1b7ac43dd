"""This module tests locators: each foreign store has one, and it never contains a password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.sources.kit.locator import has_password, hide_password, is_url, parse_location, url_scheme


def test_a_path_is_absolute_and_real(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to("real.db")
    real = os.path.realpath(tmp_path / "real.db")
    assert parse_location("link.db") == (real, real)
    assert parse_location("~/x.db").locator == os.path.realpath(Path.home() / "x.db")


def test_sqlites_url_is_the_path_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    here = os.path.realpath(tmp_path / "a b.db")
    for spelling in (
        "a b.db",
        "sqlite:///a%20b.db",
        "sqlite+aiosqlite:///./a b.db",
        f"sqlite:///{here}",
        f"sqlite+aiosqlite:///{here}?timeout=3",
        f"file://{here}",
    ):
        assert parse_location(spelling) == (here, here), spelling


def test_a_database_has_one_locator_for_every_driver_and_password() -> None:
    locators = {
        parse_location(spelling).locator
        for spelling in (
            "postgresql://ana@db.example/dak",
            "postgresql://ana:secret@db.example/dak",
            "postgresql+asyncpg://ana:s3/c?r@e:t@db.example/dak",
            "postgresql+psycopg://ana@db.example/dak?password=secret&sslpassword=x",
        )
    }
    assert locators == {"postgresql://ana@db.example/dak"}


def test_options_that_are_no_secrets_stay_in_the_locator() -> None:
    url = "postgresql+asyncpg://ana:pw@/dak?host=/run/pg&application_name=a@b"
    location = parse_location(url)
    assert location.locator == "postgresql://ana@/dak?host=/run/pg&application_name=a%40b"
    assert location.address == url


@given(st.text(min_size=8).filter(lambda text: not set(text) & set("/?&=")), st.sampled_from(["", "+asyncpg"]))
def test_no_locator_contains_a_password(password: str, driver: str) -> None:
    for url in (
        f"postgresql{driver}://ana:{password}@db.example:5432/dak",
        f"mysql{driver}://:{password}@db.example/dak?charset=utf8",
    ):
        assert password not in parse_location(url).locator
        assert parse_location(parse_location(url).locator).locator == parse_location(url).locator


@pytest.mark.parametrize(
    ("url", "locator"),
    [
        ("postgresql://ana:S3CRET", "postgresql://ana"),
        ("postgresql://ana:S3CRET/dak", "postgresql://ana"),
        ("postgresql://ana:S3C/RET", "postgresql://ana"),
        ("postgresql://ana:p@S3CRET/x@db.example:5432/dak", "postgresql://ana@db.example:5432/dak"),
        ("postgresql:///dak?options=-c%20app.password=S3CRET&host=/run", "postgresql:///dak?host=/run"),
    ],
)
def test_the_locator_of_an_address_with_an_error_contains_no_password(url: str, locator: str) -> None:
    assert parse_location(url).locator == hide_password(url) == locator


@pytest.mark.parametrize(
    ("url", "has_one"),
    [
        ("postgresql://ana@[::1]:5432/dak", False),
        ("postgresql://ana@one.example:5432,two.example/dak", False),
        ("postgresql://ana@/dak?host=/home/passkey", False),
        ("postgresql://ana@/dak?sslpassword=x", True),
        ("postgresql://ana:x@/dak", True),
    ],
)
def test_an_address_without_a_password_is_its_own_locator(url: str, has_one: bool) -> None:
    assert (parse_location(url).locator != url) == has_password(url) == has_one


def test_a_password_is_hidden_in_what_is_no_url() -> None:
    for typed in (
        "jdbc:postgresql://ana:S3CRET@h/d",
        "host=h password='S3 CRET' dbname=d",
        "postgres:/ana:S3C@RET@h/d",
        "postgresql+asyncpg:ana:S3CRET@h/d",
    ):
        assert "RET" not in hide_password(typed)
    assert hide_password("notes/a:b.jsonl") == "notes/a:b.jsonl"


def test_urls_and_paths_are_distinguished() -> None:
    assert is_url("postgresql://h/d")
    assert url_scheme("postgresql+asyncpg://h/d") == "postgresql"
    assert not is_url("/tmp/a.db")
    assert url_scheme("/tmp/a.db") == ""
