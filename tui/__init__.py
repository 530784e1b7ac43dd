"""The browser: a terminal UI over the store."""
