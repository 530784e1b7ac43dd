"""This module writes the index of a folder with several exported sessions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from store.export.document import format_time
from store.export.html import CONTENT_SECURITY_POLICY, STYLE
from store.export.markdown import escape_line
from store.export.options import ExportOptions
from store.sources import source_label
from store.text.sanitize import one_line

if TYPE_CHECKING:
    from store.export.writing import WrittenExport
    from store.model.session import Session

Row = tuple[str, str, str, str]
"""Holds the title, the name of the file, the agent and the time of a session."""


def format_index(
    options: ExportOptions, sessions: Sequence[Session], titles: Sequence[str], written: Sequence[WrittenExport]
) -> tuple[str, str]:
    """Return the name and the content of an index in the format of the sessions, or in JSON."""
    rows: list[Row] = [
        (
            title,
            export.path.name if export.path else "",
            source_label(session.source),
            format_time(session.created_at),
        )
        for session, title, export in zip(sessions, titles, written, strict=True)
    ]
    if options.format == "html":
        return "index.html", _format_html(rows)
    if options.format == "markdown":
        return "index.md", _format_markdown(rows)
    files = [
        {"file": name, "id": export.session_id, "title": title, "document_sha256": export.receipt["document_sha256"]}
        for (title, name, _, _), export in zip(rows, written, strict=True)
    ]
    return "index.json", json.dumps({"backscroll_index": 1, "sessions": files}, indent=1, ensure_ascii=False) + "\n"


def _format_html(rows: Sequence[Row]) -> str:
    items = "".join(
        f'<dt>{escape(at)}</dt><dd><a href="{quote(name)}">{escape(one_line(title, 200))}</a> '
        f'<span class="quiet">{escape(agent)}</span></dd>\n'
        for title, name, agent, at in rows
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>Conversations</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<h1>Conversations</h1>\n<dl>\n{items}</dl>\n</body>\n</html>\n"
    )


def _format_markdown(rows: Sequence[Row]) -> str:
    lines = (
        f"- [{escape_line(title)}](<{quote(name)}>) · {escape_line(agent)} · {escape_line(at)}\n"
        for title, name, agent, at in rows
    )
    return f"# Conversations\n\n{''.join(lines)}"
