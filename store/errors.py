"""This module defines the errors of the store. They share one base class, so that callers can catch one type.

The docstring of an error is the message that is shown when it is raised without one.
"""

from store.text.sentences import tidy_sentences


class StoreError(Exception):
    "The operation failed."

    def __str__(self) -> str:
        return tidy_sentences(super().__str__()) or type(self).__doc__ or ""


class NotFound(StoreError):
    "Not found."


class Ambiguous(StoreError):
    "More than one session matches."

    def __init__(self, name: str, candidates: list[str]) -> None:
        super().__init__(f"{name!r} matches {len(candidates)} sessions. Type more of the id.")
        self.candidates = candidates


class AlreadyExists(StoreError):
    "That name already exists."


class Refused(StoreError):
    "That is not allowed."


class BadValue(StoreError):
    "That value cannot be stored without loss."


class ChangedMeanwhile(StoreError):
    "It was changed elsewhere."

    def __init__(self, message: str, current: object) -> None:
        super().__init__(message)
        self.current = current


class NothingToUndo(StoreError):
    "Nothing to undo."


class Unreadable(StoreError):
    "The file cannot be opened as a store."


class Damaged(Unreadable):
    "The store is damaged. Run `backscroll doctor`, or restore a backup."

    def __init__(self, damage: str) -> None:
        super().__init__(f"{damage} Run `backscroll doctor`, or restore a backup.")
        self.damage = damage
        "Says what is damaged, without advice."


class TooNew(Unreadable):
    "The store was written by a newer version of Backscroll. Update Backscroll."


class WriteFailed(StoreError):
    "The store could not be written."


class Busy(WriteFailed):
    "Another program is writing to the store. Try again in a moment."


class SecretLocked(StoreError):
    "The secrets are locked. Unlock them with the passphrase."


class WrongPassphrase(StoreError):
    "Wrong passphrase."


class SecretDamaged(StoreError):
    "The sealed value cannot be opened: it was damaged or moved."


class KeyFileUnsafe(StoreError):
    "The key file cannot be trusted."


class KeyringUnavailable(StoreError):
    "The system keyring is not available."


class LeaksFound(Refused):
    "The text has leaks."

    def __init__(self, leaks: list[str], advice: str = "") -> None:
        count = f"{len(leaks)} certain leaks" if len(leaks) > 1 else "A certain leak"
        super().__init__(f"{count} would leave the store. {advice}")
        self.leaks = leaks
        "Describes each of them, without its value."

    def with_list(self, advice: str) -> "LeaksFound":
        """Return the same error with the leaks in its message, for a place that shows only a message."""
        more = f"; and {len(self.leaks) - 3} more" if len(self.leaks) > 3 else ""
        return LeaksFound(self.leaks, f"{'; '.join(self.leaks[:3])}{more}. {advice}")


class ScanFailed(StoreError):
    "The text could not be scanned for leaks."


class ScanLocked(ScanFailed, SecretLocked):
    "The values of secrets cannot be looked for, because they are locked."
