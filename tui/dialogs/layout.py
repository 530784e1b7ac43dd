"""This module holds the style sheet that all small dialogs share."""

from __future__ import annotations

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

VERTICAL_BREAKPOINTS = [(0, "-short"), (36, "-tall")]
"""Are given to dialogs with a text, which must leave room for what is around the text."""
