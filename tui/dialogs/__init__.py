"""Small screens that ask for one thing and return the answer."""
