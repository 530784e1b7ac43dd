"""Queries, the search index, hits, and the list of sessions."""
