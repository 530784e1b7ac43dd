"""`python -m store`: the command line without a browser, for machines that only keep and query."""

import sys

from store.cli import run

if __name__ == "__main__":
    sys.exit(run())
