"""This package parses queries, maintains the search index, and finds sessions, hits and tool calls."""
