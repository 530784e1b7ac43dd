"""This package defines the types that every component shares. They are plain values without SQL or I/O."""
