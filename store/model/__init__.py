"""The types that every component shares: plain values without SQL or I/O."""
