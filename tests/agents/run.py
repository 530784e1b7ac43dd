"""Installs the agents' programs and runs the tests of this folder in a network namespace without network.

If npm or the namespace is not available, every test is skipped and says why.
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

# These commands give the tests only the loopback interface, and end all processes that a program leaves running.
# The second one works without root where the system allows it.
ISOLATED = ("unshare", "--net", "--pid", "--fork", "--kill-child")
ISOLATED_AS_USER = (*ISOLATED, "--map-root-user")

GET_FLAGS, SET_FLAGS = 0x8913, 0x8914  # SIOCGIFFLAGS and SIOCSIFFLAGS of linux/sockios.h
INTERFACE_UP = 0x1  # IFF_UP of linux/if.h
IFREQ_FORMAT = "16sh22x"  # a struct ifreq, whose first field of interest is the flags


def main(arguments: list[str]) -> int:
    if arguments[:1] == [INSIDE_FLAG]:
        bring_loopback_up()
        return run_pytest(arguments[1:])
    isolation = next((command for command in (ISOLATED, ISOLATED_AS_USER) if can_run(command)), None)
    if isolation is None:
        return run_pytest(arguments)
    install_programs()
    return subprocess.run([*isolation, sys.executable, __file__, INSIDE_FLAG, *arguments]).returncode


def run_pytest(arguments: list[str]) -> int:
    return subprocess.run([sys.executable, "-m", "pytest", str(HERE), *arguments]).returncode


def install_programs() -> None:
    """Install the programs if package.json has changed since the last installation, which keeps a copy of it."""
    package = (HERE / "package.json").read_bytes()
    installed = INSTALL_FOLDER / "installed.json"
    if shutil.which("npm") is None or (installed.exists() and installed.read_bytes() == package):
        return
    INSTALL_FOLDER.mkdir(parents=True, exist_ok=True)
    (INSTALL_FOLDER / "package.json").write_bytes(package)
    print(f"Installing Claude Code and Codex into {INSTALL_FOLDER} (about 800 MB)", flush=True)
    try:
        subprocess.run(INSTALL_COMMAND, cwd=INSTALL_FOLDER, check=True, timeout=INSTALL_TIMEOUT)
    except subprocess.TimeoutExpired:
        sys.exit(f"npm did not end within {INSTALL_TIMEOUT // 60} minutes. Check whether the registry can be reached.")
    except subprocess.CalledProcessError:
        sys.exit("npm could not install the programs. Its messages are above.")
    installed.write_bytes(package)


def can_run(command: tuple[str, ...]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run([*command, "true"], capture_output=True).returncode == 0


def bring_loopback_up() -> None:
    """Enable the loopback interface. This does what `ip link set lo up` does, without needing `ip`."""
    with socket.socket() as connection:
        answer = fcntl.ioctl(connection, GET_FLAGS, struct.pack(IFREQ_FORMAT, b"lo", 0))
        name, flags = struct.unpack(IFREQ_FORMAT, answer)
        fcntl.ioctl(connection, SET_FLAGS, struct.pack(IFREQ_FORMAT, name, flags | INTERFACE_UP))


if __name__ == "__main__":
    os.environ.pop("PYTEST_ADDOPTS", None)  # it may request options that do not work here, such as parallel processes
    sys.exit(main(sys.argv[1:]))
