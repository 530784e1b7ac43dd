"""This package holds lists with one line per item."""
