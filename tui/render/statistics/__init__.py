"""This package renders statistics: periods, totals and tables."""
