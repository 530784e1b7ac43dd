"""The verbatim record as a tree."""
