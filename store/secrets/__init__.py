"""Sealed values of sessions, and the keys that seal them."""
