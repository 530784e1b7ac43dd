"""This package renders values as Textual Content.

All foreign text is sanitized first. Content is never parsed as markup, so a title cannot style the screen.
"""
