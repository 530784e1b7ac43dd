"""The turns of a conversation."""
