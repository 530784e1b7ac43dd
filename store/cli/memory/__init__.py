"""This package defines the command group `memory`."""
