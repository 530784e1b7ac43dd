"""The source for Claude Code."""
