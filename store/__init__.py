"""The store: every conversation in one SQLite file, a library and a command line that work alone."""
