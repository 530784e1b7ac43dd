"""This package stores the secrets of sessions, and the keys that seal them."""
