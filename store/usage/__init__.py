"""This package computes tokens, cost and statistics from the usage that sources read."""
