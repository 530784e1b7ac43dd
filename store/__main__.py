"""This module runs `python -m store`: the command line without the browser."""

import sys

from store.cli import run

if __name__ == "__main__":
    sys.exit(run())
