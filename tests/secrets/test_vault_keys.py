"""These tests check the sources of the key to the secrets: a passphrase, a file and the system keyring."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import (
    BadValue,
    KeyFileUnsafe,
    KeyringUnavailable,
    SecretDamaged,
    SecretLocked,
    WriteFailed,
    WrongPassphrase,
)
from store.secrets.crypto import (
    KdfParams,
    generate_data_key,
    key_from_file,
    key_from_keyring,
    key_from_passphrase,
    make_kdf_params,
    unwrap_data_key,
    wrap_data_key,
)

QUICK = KdfParams(salt=b"s" * 16, memory_kib=64, passes=1, lanes=2)
"""The cheapest settings of Argon2id, for tests that do not check the cost."""


# ── Passphrase ───────────────────────────────────────────────────────────────────────────────────


def test_a_passphrase_opens_the_store_and_a_wrong_one_does_not() -> None:
    key, kdf = generate_data_key(), make_kdf_params()
    wrapped = wrap_data_key(key, key_from_passphrase("correct horse", kdf), bytes(16))
    parsed = KdfParams.from_json(kdf.to_json())
    assert unwrap_data_key(wrapped, key.key_id, key_from_passphrase("correct horse", parsed), bytes(16))
    with pytest.raises(WrongPassphrase):
        unwrap_data_key(wrapped, key.key_id, key_from_passphrase("correct horse ", parsed), bytes(16))


def test_each_setting_changes_the_key() -> None:
    settings = [
        QUICK,
        replace(QUICK, salt=b"t" * 16),
        replace(QUICK, memory_kib=128),
        replace(QUICK, passes=2),
        replace(QUICK, lanes=1),
    ]
    keys = {key_from_passphrase("correct horse", kdf) for kdf in settings}
    assert len(keys) == len(settings)
    assert {len(key) for key in keys} == {32}


def test_an_accent_may_be_typed_either_way() -> None:
    assert key_from_passphrase("caf\u00e9", QUICK) == key_from_passphrase("cafe\u0301", QUICK)


def test_an_empty_passphrase_is_refused() -> None:
    with pytest.raises(BadValue):
        key_from_passphrase("", QUICK)


def test_new_settings_are_the_recommended_ones() -> None:
    kdf = make_kdf_params()
    assert (kdf.memory_kib, kdf.passes, kdf.lanes, len(kdf.salt)) == (65536, 3, 2, 16)
    assert make_kdf_params().salt != kdf.salt


@given(
    st.builds(
        KdfParams,
        salt=st.binary(min_size=16, max_size=64),
        memory_kib=st.integers(128, 1024 * 1024),
        passes=st.integers(1, 10),
        lanes=st.integers(1, 16),
    )
)
def test_settings_survive_json(kdf: KdfParams) -> None:
    assert KdfParams.from_json(kdf.to_json()) == kdf


def hostile_settings(**changes: Any) -> str:
    return json.dumps({**json.loads(QUICK.to_json()), **changes})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "7",
        "not json",
        "[" * 400,
        hostile_settings(kdf="md5"),
        hostile_settings(kdf=None),
        hostile_settings(memory_kib=1024 * 1024 + 1),
        hostile_settings(memory_kib=10**30),
        hostile_settings(memory_kib=8),
        hostile_settings(memory_kib=-1),
        hostile_settings(memory_kib="65536"),
        hostile_settings(memory_kib=65536.0),
        hostile_settings(memory_kib=float("nan")),
        hostile_settings(passes=0),
        hostile_settings(passes=11),
        hostile_settings(passes=True),
        hostile_settings(lanes=0),
        hostile_settings(lanes=17),
        hostile_settings(lanes=[2]),
        hostile_settings(salt=""),
        hostile_settings(salt="ab" * 15),
        hostile_settings(salt="ab" * 65),
        hostile_settings(salt="zz" * 16),
        hostile_settings(salt=7),
        hostile_settings(pepper="x"),
        hostile_settings() + " " * 1000,
        json.dumps({"kdf": "argon2id", "salt": "ab" * 16, "passes": 1, "lanes": 1}),
    ],
)
def test_hostile_settings_are_refused(text: str) -> None:
    with pytest.raises(SecretDamaged):
        KdfParams.from_json(text)


# ── Key file ─────────────────────────────────────────────────────────────────────────────────────


def test_a_key_file_is_created_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "config" / "backscroll" / "key"
    key = key_from_file(path, create=True)
    assert len(key) == 32
    assert path.read_bytes() == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert key_from_file(path, create=True) == key
    assert key_from_file(path, create=False) == key
    assert os.listdir(path.parent) == ["key"]


def test_a_missing_key_file_is_created_only_on_request(tmp_path: Path) -> None:
    with pytest.raises(SecretLocked, match="is missing"):
        key_from_file(tmp_path / "key", create=False)
    assert not os.listdir(tmp_path)


def test_threads_that_create_the_key_file_together_get_the_same_key(tmp_path: Path) -> None:
    for round_number in range(20):
        path = tmp_path / str(round_number) / "key"
        with ThreadPoolExecutor(8) as pool:
            keys = set(pool.map(lambda _, path=path: key_from_file(path, create=True), range(8)))
        assert keys == {path.read_bytes()}
        assert os.listdir(path.parent) == ["key"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o666])
def test_a_key_file_that_others_can_access_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "key"
    key_from_file(path, create=True)
    path.chmod(mode)
    for create in (True, False):
        with pytest.raises(KeyFileUnsafe, match="chmod 600"):
            key_from_file(path, create)


@pytest.mark.parametrize("create", [True, False])
def test_a_symlink_is_refused(tmp_path: Path, create: bool) -> None:
    key_from_file(tmp_path / "real", create=True)
    for target in ("real", "dangling"):
        link = tmp_path / f"link to {target}"
        link.symlink_to(tmp_path / target)
        with pytest.raises(KeyFileUnsafe, match="is a symbolic link"):
            key_from_file(link, create)
    assert not (tmp_path / "dangling").exists()


@pytest.mark.parametrize("size", [0, 16, 31, 33, 4096])
def test_a_key_file_of_another_size_is_refused_and_left_alone(tmp_path: Path, size: int) -> None:
    path = tmp_path / "key"
    path.touch(mode=0o600)
    path.write_bytes(b"k" * size)
    with pytest.raises(KeyFileUnsafe, match="32 bytes"):
        key_from_file(path, create=True)
    assert path.read_bytes() == b"k" * size


def test_a_key_file_that_is_not_a_regular_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", mode=0o600)
    for name in ("folder", "pipe"):
        with pytest.raises(KeyFileUnsafe, match="not a regular file"):
            key_from_file(tmp_path / name, create=True)
    (tmp_path / "file").touch()
    with pytest.raises(KeyFileUnsafe, match="Cannot open the key file"):
        key_from_file(tmp_path / "file" / "key", create=True)


def test_a_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "config").symlink_to(tmp_path / "nowhere")
    with pytest.raises(WriteFailed, match="Cannot create the key file"):
        key_from_file(tmp_path / "config" / "key", create=True)


# ── Keyring ──────────────────────────────────────────────────────────────────────────────────────


class Entries(dict[tuple[str, str], str]):
    """Holds the entries of a test keyring, and how it misbehaves."""

    forgetful = False
    broken = False


@pytest.fixture
def entries() -> Any:
    """Replace the system keyring by one in memory, and return its entries."""
    import keyring

    entries = Entries()

    class InMemory(keyring.backend.KeyringBackend):  # type: ignore[misc, name-defined]
        priority = 1.0

        def get_password(self, service: str, username: str) -> str | None:
            return entries.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            if entries.broken:
                raise OSError(f"could not keep {password}")
            if not entries.forgetful:
                entries[service, username] = password

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    yield entries
    keyring.set_keyring(before)


def test_the_keyring_keeps_the_key(entries: Entries) -> None:
    with pytest.raises(SecretLocked):
        key_from_keyring("backscroll", "store", create=False)
    key = key_from_keyring("backscroll", "store", create=True)
    assert len(key) == 32
    assert key_from_keyring("backscroll", "store", create=True) == key
    assert key_from_keyring("backscroll", "store", create=False) == key
    assert key_from_keyring("backscroll", "other", create=True) != key


def test_a_keyring_that_saves_nothing_is_an_error(entries: Entries) -> None:
    entries.forgetful = True
    with pytest.raises(KeyringUnavailable, match="did not save the key"):
        key_from_keyring("backscroll", "store", create=True)


@pytest.mark.parametrize("entry", ["", "not hex", "ab" * 31, "ab" * 33])
def test_an_entry_that_is_not_a_key_is_refused(entries: Entries, entry: str) -> None:
    entries["backscroll", "store"] = entry
    with pytest.raises(SecretDamaged):
        key_from_keyring("backscroll", "store", create=True)
    assert entries["backscroll", "store"] == entry


def test_the_message_of_a_broken_keyring_is_not_shown(entries: Entries) -> None:
    entries.broken = True
    with pytest.raises(KeyringUnavailable) as caught:
        key_from_keyring("backscroll", "store", create=True)
    assert str(caught.value) == "The system keyring does not answer (OSError)."
    assert caught.value.__context__ is None


def test_a_system_without_a_keyring_does_not_fall_back_to_another_source(home: Path) -> None:
    with pytest.raises(KeyringUnavailable, match="no safe keyring"):
        key_from_keyring("backscroll", "store", create=True)
    assert not [path for path in home.rglob("*") if path.is_file()]


def test_without_the_package_the_keyring_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)  # the import fails as if the package were not installed
    with pytest.raises(KeyringUnavailable, match=r"pip install 'backscroll\[keyring\]'"):
        key_from_keyring("backscroll", "store", create=True)
