"""Keeps conversations of AI agents in one SQLite file.

The names in `__all__` are the public API, described in docs/library.md. Every other module and name is private and may
change in any version. A name is loaded when it is first used, so `import store` itself loads nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is not imported for it, since an unchanged sync needs nothing of that

__all__ = [
    "API_FORMATS",
    "AgentFields",
    "AlreadyExists",
    "Ambiguous",
    "ApiFormat",
    "AsyncStore",
    "Attachment",
    "BadValue",
    "Busy",
    "CarriedField",
    "Change",
    "ChangedMeanwhile",
    "ChatHistory",
    "ChatMessage",
    "Damaged",
    "Edit",
    "Entry",
    "Fact",
    "FactsDiff",
    "Hit",
    "Json",
    "KeyFileUnsafe",
    "KeyringUnavailable",
    "LeaksFound",
    "LearnResult",
    "NewEntry",
    "NewRecord",
    "NotFound",
    "Note",
    "NothingToUndo",
    "Opaque",
    "PairedCall",
    "Part",
    "PublishedFile",
    "Query",
    "RebuildResult",
    "Recorder",
    "Refused",
    "ScanFailed",
    "ScanLocked",
    "SecretDamaged",
    "SecretInfo",
    "SecretLocked",
    "Session",
    "SessionFields",
    "Store",
    "StoreError",
    "StoredMessage",
    "Summary",
    "Text",
    "Thinking",
    "Tokens",
    "TooNew",
    "ToolCall",
    "ToolResult",
    "Turn",
    "Unreadable",
    "WriteFailed",
    "WrongPassphrase",
    "__version__",
    "rebuild_entries",
    "rebuild_session",
]

_NAMES_BY_MODULE = {
    "store.store": "Store",
    "store.agent_api.recorder": "Recorder",
    "store.agent_api.aio": "AsyncStore",
    "store.agent_api.chat": "ChatHistory ChatMessage",
    "store.agent_api.methods": "AgentFields",
    "store.agent_api.adk": "StoreSessionService session_service",
    "store.edits.facts": "FactsDiff LearnResult",
    "store.errors": (
        "AlreadyExists Ambiguous BadValue Busy ChangedMeanwhile Damaged KeyFileUnsafe"
        " KeyringUnavailable LeaksFound NotFound NothingToUndo Refused ScanFailed ScanLocked SecretDamaged SecretLocked"
        " StoreError TooNew Unreadable WriteFailed WrongPassphrase"
    ),
    "store.model.entry": (
        "Attachment Entry Json NewEntry NewRecord Opaque PairedCall Part StoredMessage Text Thinking Tokens ToolCall"
        " ToolResult Turn"
    ),
    "store.model.knowledge": "Change Edit Fact Hit Note PublishedFile SecretInfo Summary",
    "store.model.session": "Session SessionFields",
    "store.rebuild": "API_FORMATS ApiFormat CarriedField RebuildResult rebuild_entries rebuild_session",
    "store.search.query": "Query",
}
_MODULE_BY_NAME = {name: module for module, names in _NAMES_BY_MODULE.items() for name in names.split()}

if TYPE_CHECKING:
    from store.agent_api.adk import StoreSessionService, session_service
    from store.agent_api.aio import AsyncStore
    from store.agent_api.chat import ChatHistory, ChatMessage
    from store.agent_api.methods import AgentFields
    from store.agent_api.recorder import Recorder
    from store.edits.facts import FactsDiff, LearnResult
    from store.errors import (
        AlreadyExists,
        Ambiguous,
        BadValue,
        Busy,
        ChangedMeanwhile,
        Damaged,
        KeyFileUnsafe,
        KeyringUnavailable,
        LeaksFound,
        NotFound,
        NothingToUndo,
        Refused,
        ScanFailed,
        ScanLocked,
        SecretDamaged,
        SecretLocked,
        StoreError,
        TooNew,
        Unreadable,
        WriteFailed,
        WrongPassphrase,
    )
    from store.model.entry import (
        Attachment,
        Entry,
        Json,
        NewEntry,
        NewRecord,
        Opaque,
        PairedCall,
        Part,
        StoredMessage,
        Text,
        Thinking,
        Tokens,
        ToolCall,
        ToolResult,
        Turn,
    )
    from store.model.knowledge import Change, Edit, Fact, Hit, Note, PublishedFile, SecretInfo, Summary
    from store.model.session import Session, SessionFields
    from store.rebuild import (
        API_FORMATS,
        ApiFormat,
        CarriedField,
        RebuildResult,
        rebuild_entries,
        rebuild_session,
    )
    from store.search.query import Query
    from store.store import Store

    __version__: str
    # These two are public as well. They are not in `__all__` at run time, because `from store import *` must also
    # work where google-adk is not installed.
    __all__ += ["StoreSessionService", "session_service"]
else:
    # Type checkers do not see this function, so that they still report a name that does not exist.
    def __getattr__(name: str) -> object:
        """Load a public name when it is first used."""
        from importlib import import_module

        if name == "__version__":
            # Imported here, because every `from store import …` comes through this function.
            from importlib import metadata

            value = metadata.version("backscroll")
        elif name in _MODULE_BY_NAME:
            value = getattr(import_module(_MODULE_BY_NAME[name]), name)
        else:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        """List the public names also before they are loaded, so that a shell completes them."""
        return sorted({*globals(), *_MODULE_BY_NAME, "__version__"})
