"""This package is the statistics screen."""
