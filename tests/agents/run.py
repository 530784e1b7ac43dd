"""Installs the agents' own programs and runs the tests beside this file where nothing but this machine can be reached.

Where npm or such a place is missing the tests run all the same: each is skipped, and says why.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
INSTALL_FOLDER = HERE.parent.parent / "build" / "agents"
INSIDE_FLAG = "--inside"

INSTALL_COMMAND = ("npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error")
INSTALL_TIMEOUT = 20 * 60

# Loopback alone, and an end for whatever a program leaves running; as root, and as anybody else where that is allowed.
ISOLATED = ("unshare", "--net", "--pid", "--fork", "--kill-child")
ISOLATED_AS_USER = (*ISOLATED, "--map-root-user")

GET_FLAGS, SET_FLAGS = 0x8913, 0x8914  # SIOCGIFFLAGS and SIOCSIFFLAGS of linux/sockios.h
INTERFACE_UP = 0x1  # IFF_UP of linux/if.h
IFREQ_FORMAT = "16sh22x"  # a struct ifreq, whose first field of interest is the flags


def main(arguments: list[str]) -> int:
    if arguments[:1] == [INSIDE_FLAG]:
        bring_loopback_up()
        return run_pytest(arguments[1:])
    here = next((way for way in (ISOLATED, ISOLATED_AS_USER) if can_run(way)), None)
    if here is None:
        return run_pytest(arguments)
    install_programs()
    return subprocess.run([*here, sys.executable, __file__, INSIDE_FLAG, *arguments]).returncode


def run_pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", str(HERE), *arguments]).returncode


def install_programs() -> None:
    """Once for every change of what is wanted; what is installed says so by its copy of our package.json."""
    wanted = (HERE / "package.json").read_bytes()
    done = INSTALL_FOLDER / "installed.json"
    if shutil.which("npm") is None or (done.exists() and done.read_bytes() == wanted):
        return
    INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
    (INSTALL_FOLDER / "package.json").write_bytes(wanted)
    print(f"Installing Claude Code and Codex into {INSTALL_FOLDER} (about 800 MB)", flush=True)
    try:
        subprocess.run(INSTALL_COMMAND, cwd=INSTALL_FOLDER, check=True, timeout=INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired:
        sys.exit(f"npm did not end within {INSTALL_TIMEOUT // 60} minutes; see whether the registry can be reached.")
    except subprocess.CalledProcessError:
        sys.exit("npm could not install the programs; what it says is above.")
    done.write_bytes(wanted)


def can_run(way: tuple[str, ...]) -> bool:
    if shutil.which(way[0]) is None:
        return False
    return subprocess.run([*way, "true"], capture_output=True).returncode == 0


def bring_loopback_up() -> None:
    """What `ip link set lo up` does, where there may be no `ip`."""
    with socket.socket() as asked:
        found = fcntl.ioctl(asked, GET_FLAGS, struct.pack(IFREQ_FORMAT, b"lo", 0))
        name, flags = struct.unpack(IFREQ_FORMAT, found)
        fcntl.ioctl(asked, SET_FLAGS, struct.pack(IFREQ_FORMAT, name, flags | INTERFACE_UP))


if __name__ == "__main__":
    os.environ.pop("PYTEST_ADDOPTS", None)  # which may ask for what these tests cannot have, such as several processes
    sys.exit(main(sys.argv[1:]))
