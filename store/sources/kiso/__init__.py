"""The source for Kiso."""
