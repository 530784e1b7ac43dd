"""This package holds the widgets. They know sessions and how to render them, but never read the store."""
