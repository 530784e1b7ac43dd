"""This package opens the paths and web addresses that a conversation names."""
