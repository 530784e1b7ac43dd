"""The source for Wuhu."""
