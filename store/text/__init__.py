"""This package handles text: JSON, validation, safe display, accents and CJK."""
