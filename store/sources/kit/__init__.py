"""This package holds what the readers of several agents share. It never imports an agent's own package."""
