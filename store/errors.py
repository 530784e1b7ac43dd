"""Everything the store refuses, under one root, so that callers catch one type and show one sentence."""


class StoreError(Exception):
    "The store could not do what was asked"

    def __str__(self) -> str:
        return super().__str__() or type(self).__doc__ or ""


class NotFound(StoreError):
    "There is nothing by that name"


class Ambiguous(StoreError):
    "More than one session answers to that name"

    def __init__(self, name: str, candidates: list[str]) -> None:
        super().__init__(f"{name!r} fits {len(candidates)} sessions; give more of the id")
        self.candidates = candidates


class AlreadyExists(StoreError):
    "Something by that name is there already"


class Refused(StoreError):
    "The store does not allow that"


class BadValue(StoreError):
    "That value cannot be kept faithfully"


class ChangedMeanwhile(StoreError):
    "Somebody else changed it since it was read"

    def __init__(self, message: str, current: object) -> None:
        super().__init__(message)
        self.current = current


class NothingToUndo(StoreError):
    "There is no edit to undo"


class Unreadable(StoreError):
    "The file cannot be opened as a store"


class TooNew(Unreadable):
    "The store was written by a newer version of Backscroll"


class WriteFailed(StoreError):
    "The store could not be written"


class Busy(WriteFailed):
    "Another program is writing to the store"


class SecretLocked(StoreError):
    "The secrets are locked; give the passphrase first"


class WrongPassphrase(StoreError):
    "That is not the passphrase"


class SecretDamaged(StoreError):
    "The sealed value does not open: it was damaged or moved"


class KeyFileUnsafe(StoreError):
    "The key file cannot be trusted"


class KeyringUnavailable(StoreError):
    "The system keyring does not answer"
