"""This package shares sessions and facts between machines, through a PostgreSQL database that a team already has."""
