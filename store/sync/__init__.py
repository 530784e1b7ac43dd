"""This package imports what is new in the agents' stores."""
