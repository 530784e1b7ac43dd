"""Provides members of a team, and the database between them, to all tests here."""

from teams.stores import open_member, team_address, team_database

__all__ = ["open_member", "team_address", "team_database"]
