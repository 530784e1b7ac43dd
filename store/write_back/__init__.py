"""This package writes edits back to the stores they came from."""
