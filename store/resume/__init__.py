"""This package resumes a session in its agent: it builds the command, and checks the session before it runs."""
