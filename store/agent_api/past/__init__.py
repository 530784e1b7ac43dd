"""This package answers agents that ask about past conversations."""
