"""Reads what is new in the agents' stores into ours."""
