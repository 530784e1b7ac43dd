"""This package is the screen with the leaks of the store: what was found where, and what a person does about it."""
