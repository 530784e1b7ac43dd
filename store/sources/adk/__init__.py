"""The source for google-adk."""
