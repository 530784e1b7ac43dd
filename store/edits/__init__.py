"""This package holds what a person edits: facts, summaries, notes, tags, published files, and the journal of edits."""
