"""This package shows the turns of a session."""
