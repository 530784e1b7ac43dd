"""This package shows a record as a JSON tree."""
