"""This package shows charts with a cursor."""
