"""This module tests locators: each foreign store has one, and it never contains a password."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.sources.kit.locator import is_url, parse_location, url_scheme


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


def test_urls_and_paths_are_distinguished() -> None:
    assert is_url("postgresql://h/d")
    assert url_scheme("postgresql+asyncpg://h/d") == "postgresql"
    assert not is_url("/tmp/a.db")
    assert url_scheme("/tmp/a.db") == ""
