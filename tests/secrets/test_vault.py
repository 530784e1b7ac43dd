"""These tests check that a sealed value opens only with its key, in its context and undamaged."""

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
CONTEXT = SealContext(STORE, "telegram:648079060", "API_KEY", 1)
KEY = DataKey(b"key-id-8", b"K" * 32)
KEK = b"W" * 32

ANY_TEXT = st.text(st.characters())
CONTEXTS = st.builds(
    SealContext,
    store=st.binary(min_size=16, max_size=16),
    session=ANY_TEXT,
    name=ANY_TEXT,
    version=st.integers(0, 2**64 - 1),
)


def raised_error(call: Callable[[], object]) -> StoreError:
    with pytest.raises(StoreError) as caught:
        call()
    return caught.value


# ── Sealing ──────────────────────────────────────────────────────────────────────────────────────


@given(ANY_TEXT, CONTEXTS)
def test_any_text_can_be_opened_again(value: str, context: SealContext) -> None:
    assert KEY.open(KEY.seal(value, context), context) == value


UNUSUAL_VALUES = {
    "empty": "",
    "nul": "\0",
    "ends in nul": "a\0b\0",
    "lone surrogate": "\ud800",
    "surrogates in the wrong order": "\ude00\ud83d",
    "surrogates in the right order": "\ud83d\ude00",
    "the character of that pair": "😀",
    "longest": "x" * MAX_VALUE_BYTES,
}


@pytest.mark.parametrize("value", UNUSUAL_VALUES.values(), ids=UNUSUAL_VALUES.keys())
def test_unusual_values_can_be_opened_again(value: str) -> None:
    assert KEY.open(KEY.seal(value, CONTEXT), CONTEXT) == value


@pytest.mark.parametrize("value", ["x" * (MAX_VALUE_BYTES + 1), "é" * (MAX_VALUE_BYTES // 2 + 1)])
def test_a_value_that_is_too_long_is_refused(value: str) -> None:
    with pytest.raises(BadValue, match="at most 1048576 bytes"):
        KEY.seal(value, CONTEXT)


def seal_by_hand(plain: bytes, nonce: bytes = b"nonce-12-byt") -> bytes:
    """Seal a value according to the documented format, without the functions of the module."""
    fields = [
        b"vault1",
        STORE,
        b"key-id-8",
        b"telegram:648079060",
        b"API_KEY",
        struct.pack(">Q", 1),
    ]
    associated_data = b"".join(struct.pack(">I", len(field)) + field for field in fields)
    return b"\x01" + b"key-id-8" + nonce + AESGCM(b"K" * 32).encrypt(nonce, plain, associated_data)


def test_the_format_is_the_documented_one() -> None:
    plain = struct.pack(">I", 9) + b"hunter2!!" + bytes(51)
    assert KEY.open(seal_by_hand(plain), CONTEXT) == "hunter2!!"
    sealed = KEY.seal("hunter2!!", CONTEXT)
    assert len(sealed) == 101
    assert sealed == seal_by_hand(plain, nonce=sealed[9:21])


def test_a_value_is_sealed_differently_each_time() -> None:
    assert len({KEY.seal("same", CONTEXT) for _ in range(1000)}) == 1000


def test_every_flipped_bit_is_refused() -> None:
    sealed = KEY.seal("hunter2!!", CONTEXT)
    for bit in range(len(sealed) * 8):
        flipped = bytearray(sealed)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SecretDamaged):
            KEY.open(bytes(flipped), CONTEXT)


def test_truncated_and_longer_values_are_refused() -> None:
    sealed = KEY.seal("hunter2!!", CONTEXT)
    for wrong in [*(sealed[:end] for end in range(len(sealed))), sealed + b"\0"]:
        with pytest.raises(SecretDamaged):
            KEY.open(wrong, CONTEXT)


@pytest.mark.parametrize(
    "other_context",
    [
        replace(CONTEXT, store=bytes(16)),
        replace(CONTEXT, session="telegram:1"),
        replace(CONTEXT, name="OTHER"),
        replace(CONTEXT, version=2),
        replace(CONTEXT, session="telegram:648079060A", name="PI_KEY"),
    ],
    ids=["store", "session", "name", "version", "boundary between session and name"],
)
def test_a_moved_value_is_refused(other_context: SealContext) -> None:
    sealed = KEY.seal("hunter2!!", CONTEXT)
    with pytest.raises(SecretDamaged, match="moved"):
        KEY.open(sealed, other_context)


def test_another_key_does_not_open_the_value() -> None:
    sealed = KEY.seal("hunter2!!", CONTEXT)
    with pytest.raises(SecretDamaged, match="another key"):
        generate_data_key().open(sealed, CONTEXT)
    with pytest.raises(SecretDamaged):
        DataKey(KEY.key_id, b"L" * 32).open(sealed, CONTEXT)


def test_padding_hides_the_length_within_a_block() -> None:
    sizes = [len(KEY.seal("x" * length, CONTEXT)) for length in range(125)]
    assert set(sizes[:61]) == {101}
    assert set(sizes[61:]) == {165}


def test_a_sealed_value_names_its_key() -> None:
    assert read_key_id(KEY.seal("hunter2!!", CONTEXT)) == KEY.key_id
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


def test_an_unwrapped_key_opens_its_values() -> None:
    key = generate_data_key()
    sealed = key.seal("hunter2!!", CONTEXT)
    unwrapped = unwrap_data_key(wrap_data_key(key, KEK, STORE), key.key_id, KEK, STORE)
    assert unwrapped.key_id == key.key_id
    assert unwrapped.open(sealed, CONTEXT) == "hunter2!!"


def test_every_data_key_is_new() -> None:
    first, second = generate_data_key(), generate_data_key()
    assert first.key_id != second.key_id
    renamed = DataKey(first.key_id, second._key)
    with pytest.raises(SecretDamaged):
        renamed.open(first.seal("hunter2!!", CONTEXT), CONTEXT)


def test_another_key_or_store_does_not_unwrap_the_key() -> None:
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


# ── No leaks ─────────────────────────────────────────────────────────────────────────────────────


def test_repr_shows_no_key() -> None:
    for shown in (repr(KEY), str(KEY), f"{KEY}", repr([KEY])):
        assert KEY.key_id.hex() in shown
        assert "KKK" not in shown
        assert (b"K" * 32).hex() not in shown
    assert not hasattr(KEY, "__dict__")


def test_errors_contain_neither_value_nor_key() -> None:
    marker = "planted-marker"
    sealed = KEY.seal(marker, CONTEXT)
    not_text = seal_by_hand(struct.pack(">I", 17) + marker.encode() + b"\xff\xfe\xfd" + bytes(43))
    errors = [
        raised_error(lambda: KEY.seal(marker * MAX_VALUE_BYTES, CONTEXT)),
        raised_error(lambda: KEY.open(sealed[:-1], CONTEXT)),
        raised_error(lambda: KEY.open(sealed, replace(CONTEXT, version=9))),
        raised_error(lambda: KEY.open(not_text, CONTEXT)),
        raised_error(lambda: unwrap_data_key(wrap_data_key(KEY, KEK, STORE), KEY.key_id, marker.encode() * 3, STORE)),
    ]
    for error in errors:
        while error:
            text = f"{error!r} {error} {vars(error)}"
            assert marker not in text
            assert "KKK" not in text
            # A decoding error would contain the bytes that it could not decode.
            assert not isinstance(error, UnicodeError)
            error = error.__context__  # type: ignore[assignment]
