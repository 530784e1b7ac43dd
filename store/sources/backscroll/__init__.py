"""This package reads sessions that Backscroll exported as JSON."""
