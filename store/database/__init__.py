"""This package opens, migrates and backs up the SQLite file of a store, and cancels reads."""
