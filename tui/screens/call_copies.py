"""This module copies a part of a tool call for the screens that show calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.widget import Widget

from store.conversations.tool_calls import load_result_record
from store.model.entry import PairedCall
from store.model.session import Session
from tui.messages import Copy
from tui.render.inspection.call_copy import MISSING_PART, CallPart, find_copied_part

if TYPE_CHECKING:
    from store.leaks.masking import LeakMask
    from store.store import Store


def copy_call_part(
    widget: Widget, store: Store, session: Session, call: PairedCall, part: CallPart, mask: LeakMask | None
) -> None:
    """Copy a part of a call as it is shown, or say that the call does not have it. Call this in a thread."""
    record = load_result_record(store, session.key, call) if part == "command" else None
    copied = find_copied_part(call, part, session.cwd, mask.mask(record) if mask else record)
    if copied is None:
        widget.notify(MISSING_PART[part], timeout=3, markup=False)
    else:
        widget.post_message(Copy(copied.text, copied.description))
