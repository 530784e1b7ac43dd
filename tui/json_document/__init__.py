"""This package parses JSON of any size, and shows it as a tree whose parts are parsed when they are needed."""
