"""This package finds keys, tokens and passwords in texts and files."""
