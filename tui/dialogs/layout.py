"""This module holds what small dialogs share: their style sheet and the key for help."""

from __future__ import annotations

from textual.binding import Binding

HELP_BINDING = Binding(
    "question_mark", "app.help", "Keys", key_display="?", id="dialog.help", tooltip="All keys of this dialog"
)
"""Shows all keys of a dialog that has no field to type in. The keys of the app do not work on a modal screen."""

DIALOG_CSS = """
    align: center middle;

    Vertical {
        width: 80;
        max-width: 96%;
        height: auto;
        max-height: 90%;
        padding: 1 2;
        background: $surface;
    }

    #title, #note, #refusal {
        height: auto;
    }

    #note {
        margin-bottom: 1;
    }

    Input {
        background: $background;

        &:focus {
            background-tint: $background 0%;
        }
    }

    TextArea {
        height: auto;
        min-height: 3;
        max-height: 16;
        background: $background;

        &, &:focus {
            border: none;
        }
    }

    &.-short TextArea {
        max-height: 45vh;
    }
"""

SIDE_BY_SIDE_CSS = (
    DIALOG_CSS
    + """
    Vertical {
        width: 120;
    }

    Horizontal {
        height: auto;
        margin-top: 1;
    }
"""
)
"""Is the style sheet of dialogs that show texts side by side."""

VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]
"""Are given to dialogs with a text, which must leave room for what is around the text."""

PREVIEW_CSS = """
    align: center middle;

    Vertical {
        width: 120;
        max-width: 96%;
        height: auto;
        max-height: 90%;
        padding: 0 1;
        background: $background;
        border: round $foreground 25%;
    }

    TextView {
        margin: 1 0;
    }

    #title, #choices, #refusal, #progress {
        height: auto;
        padding: 0 1;
    }
"""
"""Is the style sheet of dialogs that show at length what will be done."""

PICKER_CSS = """
    align: center middle;

    #picker {
        width: 94%;
        padding: 0 1;
        background: $background;
        border: round $foreground 25%;
    }

    Input {
        background: transparent;
        margin-bottom: 1;
    }

    #title, #head {
        height: 1;
    }
"""
"""Is the style sheet of dialogs with a list and a field that filters it."""
