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
        height: 45vh;
        max-height: 16;
        background: $background;

        &, &:focus {
            border: none;
        }
    }
"""
