"""This package holds the commands that need the browser's code. The command line loads them by name."""
