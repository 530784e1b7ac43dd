"""This package defines the commands about tokens and cost: `stats`, `cost` and `prices`."""
