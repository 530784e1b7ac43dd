"""The source for Codex."""
