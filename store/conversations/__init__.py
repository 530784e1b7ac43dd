"""Sessions and their entries, turns, tool calls and verbatim records."""
