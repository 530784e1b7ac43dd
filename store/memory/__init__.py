"""This package reads, traces and writes the memory files of agents, such as CLAUDE.md and AGENTS.md."""
