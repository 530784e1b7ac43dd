"""This module holds the keys that copy a part of a tool call. They are the same wherever calls are shown."""

from __future__ import annotations

from textual.binding import Binding

from tui.render.inspection.call_copy import CallPart


def build_copy_bindings(prefix: str, *, output_keys: str = "R", show: bool = False) -> list[Binding]:
    """Build the bindings for a widget with an action `copy_part`. Their ids begin with the prefix."""
    return [
        _copy_binding(prefix, "number_sign", "command", "Copy the command, or the patch of an edit", "#", show=show),
        _copy_binding(prefix, "at", "path", "Copy the path", "@"),
        _copy_binding(prefix, output_keys, "output", "Copy the output", show=show),
    ]


def _copy_binding(
    prefix: str, keys: str, part: CallPart, tooltip: str, key_display: str | None = None, *, show: bool = False
) -> Binding:
    name = f"{prefix}.copy_{part}"
    return Binding(
        keys, f"copy_part('{part}')", f"Copy {part}", show=show, key_display=key_display, id=name, tooltip=tooltip
    )
