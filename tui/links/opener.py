"""This module opens the links of an item: a path in the person's editor, a web address with the system's browser."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from textual.dom import DOMNode

from store.errors import StoreError
from store.text.links import Link
from store.text.web_address import examine_address
from tui.links.lines import LinkTarget
from tui.links.targets import check_openable, find_targets, is_inside
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from tui.app import Backscroll

OUTSIDE = "Open this file in your editor? It is outside the folder of the session."
NO_LINKS = "No path or address in this item."


class LinkOpener:
    """Offers the links of an item. One that can be opened is offered directly, of several a person picks one."""

    def __init__(self, node: DOMNode, app: Backscroll, cwd: str) -> None:
        self._node = node
        self._app = app
        self._cwd = cwd

    def offer(self, find_links: Callable[[], Iterable[Link]]) -> None:
        """Find the links in a thread, because an item may be large and a file system slow."""

        def find() -> None:
            targets = find_targets(find_links(), self._cwd)
            self._app.call_from_thread(self._choose, targets)

        run_in_thread(self._node, find, group="links", exclusive=True)

    def open_file(self, path: str, line: int | None, question: str) -> None:
        """Open a file at a line if it can be opened, and the person answers the question with yes."""
        self._examine_path(LinkTarget(Link(path, line), path), question)

    def _choose(self, targets: list[LinkTarget]) -> None:
        openable = [target for target in targets if not target.problem]
        if len(openable) == 1 or len(targets) == 1:
            self._open((openable or targets)[0])
        elif targets:
            from tui.dialogs.links import LinkPickerDialog

            self._app.push_screen(LinkPickerDialog(targets, self._cwd), self._open)
        else:
            self._app.notify(NO_LINKS, timeout=2, markup=False)

    def _open(self, target: LinkTarget | None) -> None:
        if target is None:
            return
        if target.link.is_address:
            self._show_address(target.link.target)
        else:
            self._examine_path(target)

    # ── paths ─────────────────────────────────────────────────────────────────────────────────────

    def _examine_path(self, target: LinkTarget, question: str = OUTSIDE) -> None:
        """Open a file in the folder of the session. Any other is shown first, because an agent may name any file."""
        try:
            check_openable(target.path)
        except StoreError as reason:
            self._app.show_error(reason)
            return
        if is_inside(target.path, self._cwd):
            self._edit(target)
        else:
            self._show_path(target, question)

    def _show_path(self, target: LinkTarget, question: str) -> None:
        from tui.dialogs.links import OutsidePathDialog

        def go_on(sure: bool | None) -> None:
            if sure:
                self._edit(target)

        self._app.push_screen(OutsidePathDialog(target, os.path.realpath(target.path), question), go_on)

    def _edit(self, target: LinkTarget) -> None:
        """Open a file in the editor. It is checked again, because it may have been replaced since it was shown."""
        from tui.dialogs.external_editor import open_in_external_editor

        try:
            check_openable(target.path)
            open_in_external_editor(self._app, target.path, target.link.line, target.link.column)
        except StoreError as reason:
            self._app.show_error(reason)

    # ── addresses ─────────────────────────────────────────────────────────────────────────────────

    def _show_address(self, text: str) -> None:
        from tui.dialogs.links import AddressDialog

        examined = examine_address(text)

        def go_on(sure: bool | None) -> None:
            if sure:
                run_in_thread(self._node, lambda: self._open_address(examined.address), group="open")

        self._app.push_screen(AddressDialog(text, examined), go_on)

    def _open_address(self, address: str) -> None:
        from tui.links.system_opener import find_opener, open_with_system

        open_with_system(find_opener("addresses"), address)
        self._app.notify("Opened the address.", timeout=3, markup=False)
