"""This package completes commands, options, sessions and filters in a shell.

`completion SHELL` prints a script. At every Tab the script runs `backscroll _complete`, which must be quick and quiet:
it loads only the command that is typed, reads the store without locking or writing it, and never fails.
"""
