"""A sealed value opens with its key, in its place, unharmed, and in no other way."""

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from store.errors import (
    BadValue,
    SecretDamaged,
    StoreError,
    WrongPassphrase,
)
from store.secrets.crypto import (
    MAX_VALUE_BYTES,
    DataKey,
    SealContext,
    generate_data_key,
    read_key_id,
    unwrap_data_key,
    wrap_data_key,
)

STORE = bytes(range(16))
PLACE = SealContext(STORE, "telegram:648079060", "API_KEY", 1)
KEY = DataKey(b"key-id-8", b"K" * 32)
KEK = b"W" * 32

ANYTHING = st.text(st.characters())
PLACES = st.builds(
    SealContext,
    store=st.binary(min_size=16, max_size=16),
    session=ANYTHING,
    name=ANYTHING,
    version=st.integers(0, 2**64 - 1),
)


def refusal(call: Callable[[], object]) -> StoreError:
    with pytest.raises(StoreError) as caught:
        call()
    return caught.value


# ── Sealing ──────────────────────────────────────────────────────────────────────────────────────


@given(ANYTHING, PLACES)
def test_any_text_comes_back(value: str, place: SealContext) -> None:
    assert KEY.open(KEY.seal(value, place), place) == value


ODD = {
    "empty": "",
    "nul": "\0",
    "ends in nul": "a\0b\0",
    "lone surrogate": "\ud800",
    "surrogates in the wrong order": "\ude00\ud83d",
    "surrogates in the right order": "\ud83d\ude00",
    "what such a pair stands for": "😀",
    "longest": "x" * MAX_VALUE_BYTES,
}


@pytest.mark.parametrize("value", ODD.values(), ids=ODD.keys())
def test_odd_values_come_back(value: str) -> None:
    assert KEY.open(KEY.seal(value, PLACE), PLACE) == value


@pytest.mark.parametrize("value", ["x" * (MAX_VALUE_BYTES + 1), "é" * (MAX_VALUE_BYTES // 2 + 1)])
def test_too_long_a_value_is_refused(value: str) -> None:
    with pytest.raises(BadValue, match="at most 1048576 bytes"):
        KEY.seal(value, PLACE)


def by_hand(plain: bytes, nonce: bytes = b"nonce-12-byt") -> bytes:
    """A record built from the written format alone, without the module's own helpers."""
    fields = [
        b"vault1",
        STORE,
        b"key-id-8",
        b"telegram:648079060",
        b"API_KEY",
        struct.pack(">Q", 1),
    ]
    bound = b"".join(struct.pack(">I", len(field)) + field for field in fields)
    return b"\x01" + b"key-id-8" + nonce + AESGCM(b"K" * 32).encrypt(nonce, plain, bound)


def test_the_format_is_the_written_one() -> None:
    plain = struct.pack(">I", 9) + b"hunter2!!" + bytes(51)
    assert KEY.open(by_hand(plain), PLACE) == "hunter2!!"
    record = KEY.seal("hunter2!!", PLACE)
    assert len(record) == 101
    assert record == by_hand(plain, nonce=record[9:21])


def test_a_value_never_seals_to_the_same_record_twice() -> None:
    assert len({KEY.seal("same", PLACE) for _ in range(1000)}) == 1000


def test_every_flipped_bit_is_refused() -> None:
    record = KEY.seal("hunter2!!", PLACE)
    for bit in range(len(record) * 8):
        flipped = bytearray(record)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SecretDamaged):
            KEY.open(bytes(flipped), PLACE)


def test_every_cut_or_longer_record_is_refused() -> None:
    record = KEY.seal("hunter2!!", PLACE)
    for wrong in [*(record[:end] for end in range(len(record))), record + b"\0"]:
        with pytest.raises(SecretDamaged):
            KEY.open(wrong, PLACE)


@pytest.mark.parametrize(
    "elsewhere",
    [
        replace(PLACE, store=bytes(16)),
        replace(PLACE, session="telegram:1"),
        replace(PLACE, name="OTHER"),
        replace(PLACE, version=2),
        replace(PLACE, session="telegram:648079060A", name="PI_KEY"),
    ],
    ids=["store", "session", "name", "version", "boundary between session and name"],
)
def test_a_moved_record_is_refused(elsewhere: SealContext) -> None:
    record = KEY.seal("hunter2!!", PLACE)
    with pytest.raises(SecretDamaged, match="moved"):
        KEY.open(record, elsewhere)


def test_another_key_does_not_open_it() -> None:
    record = KEY.seal("hunter2!!", PLACE)
    with pytest.raises(SecretDamaged, match="another key"):
        generate_data_key().open(record, PLACE)
    with pytest.raises(SecretDamaged):
        DataKey(KEY.key_id, b"L" * 32).open(record, PLACE)


def test_padding_hides_the_length_within_a_block() -> None:
    sizes = [len(KEY.seal("x" * length, PLACE)) for length in range(125)]
    assert set(sizes[:61]) == {101}
    assert set(sizes[61:]) == {165}


def test_a_record_names_its_key() -> None:
    assert read_key_id(KEY.seal("hunter2!!", PLACE)) == KEY.key_id
    for wrong in (b"", b"\x01short", b"\x02" + bytes(100)):
        with pytest.raises(SecretDamaged):
            read_key_id(wrong)


@pytest.mark.parametrize(
    "make",
    [
        lambda: SealContext(b"short", "s", "n", 1),
        lambda: SealContext(STORE, "s", "n", -1),
        lambda: SealContext(STORE, "s", "n", 2**64),
        lambda: DataKey(b"short", b"K" * 32),
        lambda: DataKey(b"key-id-8", b"K" * 16),
        lambda: wrap_data_key(KEY, b"W" * 16, STORE),
        lambda: wrap_data_key(KEY, KEK, b"short"),
        lambda: unwrap_data_key(wrap_data_key(KEY, KEK, STORE), KEY.key_id, b"W" * 16, STORE),
    ],
)
def test_wrong_sizes_are_refused(make: Callable[[], object]) -> None:
    with pytest.raises(BadValue):
        make()


# ── Wrapping ─────────────────────────────────────────────────────────────────────────────────────


def test_a_wrapped_key_opens_what_it_sealed() -> None:
    key = generate_data_key()
    record = key.seal("hunter2!!", PLACE)
    again = unwrap_data_key(wrap_data_key(key, KEK, STORE), key.key_id, KEK, STORE)
    assert again.key_id == key.key_id
    assert again.open(record, PLACE) == "hunter2!!"


def test_every_data_key_is_new() -> None:
    first, second = generate_data_key(), generate_data_key()
    assert first.key_id != second.key_id
    renamed = DataKey(first.key_id, second._key)
    with pytest.raises(SecretDamaged):
        renamed.open(first.seal("hunter2!!", PLACE), PLACE)


def test_another_key_or_store_does_not_unwrap_it() -> None:
    wrapped = wrap_data_key(KEY, KEK, STORE)
    with pytest.raises(WrongPassphrase):
        unwrap_data_key(wrapped, KEY.key_id, b"V" * 32, STORE)
    with pytest.raises(WrongPassphrase):
        unwrap_data_key(wrapped, KEY.key_id, KEK, bytes(16))
    with pytest.raises(SecretDamaged):
        unwrap_data_key(wrapped, b"other-id", KEK, STORE)


def test_a_wrapped_key_cannot_be_renamed() -> None:
    wrapped = wrap_data_key(KEY, KEK, STORE)
    renamed = wrapped[:1] + b"other-id" + wrapped[9:]
    with pytest.raises(WrongPassphrase):
        unwrap_data_key(renamed, b"other-id", KEK, STORE)


def test_every_flipped_bit_of_a_wrapped_key_is_refused() -> None:
    wrapped = wrap_data_key(KEY, KEK, STORE)
    for bit in range(len(wrapped) * 8):
        flipped = bytearray(wrapped)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises((SecretDamaged, WrongPassphrase)):
            unwrap_data_key(bytes(flipped), KEY.key_id, KEK, STORE)


# ── Nothing tells ────────────────────────────────────────────────────────────────────────────────


def test_repr_shows_no_key() -> None:
    for shown in (repr(KEY), str(KEY), f"{KEY}", repr([KEY])):
        assert KEY.key_id.hex() in shown
        assert "KKK" not in shown
        assert (b"K" * 32).hex() not in shown
    assert not hasattr(KEY, "__dict__")


def test_refusals_carry_neither_value_nor_key() -> None:
    marker = "planted-marker"
    record = KEY.seal(marker, PLACE)
    not_text = by_hand(struct.pack(">I", 17) + marker.encode() + b"\xff\xfe\xfd" + bytes(43))
    refusals = [
        refusal(lambda: KEY.seal(marker * MAX_VALUE_BYTES, PLACE)),
        refusal(lambda: KEY.open(record[:-1], PLACE)),
        refusal(lambda: KEY.open(record, replace(PLACE, version=9))),
        refusal(lambda: KEY.open(not_text, PLACE)),
        refusal(lambda: unwrap_data_key(wrap_data_key(KEY, KEK, STORE), KEY.key_id, marker.encode() * 3, STORE)),
    ]
    for error in refusals:
        while error:
            told = f"{error!r} {error} {vars(error)}"
            assert marker not in told
            assert "KKK" not in told
            # A decoding error would carry the bytes that it could not decode.
            assert not isinstance(error, UnicodeError)
            error = error.__context__  # type: ignore[assignment]
