"""This program makes a large store with version 0.1.0, to test migrations: `make_large_store.py OUT.db [MEGABYTES]`.

MEGABYTES is the size of the made-up transcripts. The default gives a store of about 1 GB.
"""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSION_0_1_0 = "0ff1d6a66b8208eac55cd2e9210db4ca699e8dc8"
MEGABYTES = 1_500
MAKE_TRANSCRIPTS = """
import sys
from pathlib import Path
from bench.corpus import corpus
print(corpus(Path(sys.argv[1]), int(sys.argv[2])).home)
"""


def main() -> None:
    out = Path(sys.argv[1]).resolve()
    megabytes = int(sys.argv[2]) if len(sys.argv) > 2 else MEGABYTES
    tree = _old_tree(ROOT / "build" / "version-0.1.0")
    home = _run(tree, "-c", MAKE_TRANSCRIPTS, str(ROOT / "build" / "bench"), str(megabytes)).strip()
    _run(tree, "-m", "store", "--store", str(out), "sync", HOME=home)
    print(f"{out}: {out.stat().st_size / 1e6:,.0f} MB")


def _old_tree(folder: Path) -> Path:
    """Unpack the source tree of version 0.1.0 from the history of this repository."""
    if not folder.exists():
        packed = subprocess.run(["git", "archive", VERSION_0_1_0], cwd=ROOT, check=True, capture_output=True).stdout
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            archive.extractall(folder, filter="data")
    return folder


def _run(tree: Path, *arguments: str, **environment: str) -> str:
    """Run Python with the old tree before the installed one on its path, and return stdout."""
    path = os.pathsep.join([str(tree), str(tree / "tests")])
    result = subprocess.run(
        [sys.executable, *arguments],
        check=True,
        stdout=subprocess.PIPE,
        cwd=tree,
        text=True,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    return result.stdout


if __name__ == "__main__":
    main()
