"""JSON values of any size, parsed and opened as far as they are looked at."""
