"""Continues a session in its own agent: the command, and the checks before it runs."""
