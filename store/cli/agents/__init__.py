"""This package defines the commands that let agents ask about past conversations: `mcp` and `skill`."""
