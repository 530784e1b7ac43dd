"""This module returns the beginning of an export, for a person who decides about it. Nothing is written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from store.export.options import ExportOptions
from store.export.reader import DocumentReader
from store.export.writing import check_options, render_export
from store.leaks.gate import open_gate

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store

_LINE_BYTES = 400


def preview_lines(store: Store, session: Session, options: ExportOptions, count: int) -> list[str]:
    """Return the first lines of a document. For HTML, they are those of its Markdown, which a person can read."""
    check_options(options)
    shown = replace(options, format="markdown") if options.format == "html" else options
    gate = open_gate(store, options.leaks)
    reader = DocumentReader(store, shown, gate=gate)
    data = b""
    with store.snapshot():
        for piece in render_export(reader, session):
            data += piece
            if data.count(b"\n") >= count or len(data) > count * _LINE_BYTES:
                break
    return data.decode("utf-8", "replace").splitlines()[:count]
