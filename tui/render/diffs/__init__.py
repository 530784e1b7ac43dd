"""This package renders what a session changed, and the differences of two things."""
