"""This package stores sessions with their entries, turns, tool calls and records."""
