"""Lists with one line per item."""
