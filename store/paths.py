"""Where things live, and the config file that may say otherwise."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from store.errors import StoreError, Unreadable

_MAC_FOLDER = "Library/Application Support"


def _platform_folder(variable: str, usual: str) -> Path:
    """Ours, where the platform keeps such. By hand: what knows all platforms is longer to load than a store to open."""
    named = os.environ.get(variable, "")
    if not os.path.isabs(named):
        return Path.home() / (_MAC_FOLDER if sys.platform == "darwin" else usual) / "backscroll"
    return Path(named) / "backscroll"


def data_dir() -> Path:
    return _platform_folder("XDG_DATA_HOME", ".local/share")


def config_dir() -> Path:
    return _platform_folder("XDG_CONFIG_HOME", ".config")


def config_file() -> Path:
    return config_dir() / "config.toml"


def state_file() -> Path:
    """What was chosen in the browser and should be so again."""
    return _platform_folder("XDG_STATE_HOME", ".local/state") / "browser.json"


def key_file() -> Path:
    """Never beside the database: a copied store must not bring its key along."""
    return config_dir() / "key"


def load_config() -> dict[str, Any]:
    path = config_file()
    try:
        text = path.read_text("utf-8")
        import tomllib  # most people have no such file, and a start need not wait for what would read it

        return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as reason:
        raise StoreError(f"The config file {path} cannot be read ({reason}); mend it or move it away.") from None


def resolve_store_path(named: str | os.PathLike[str] | None = None) -> Path:
    """The store that is meant: the one named, else BACKSCROLL_STORE, else `[store] path`, else the data folder's."""
    chosen = named or os.environ.get("BACKSCROLL_STORE") or _configured_path()
    if not chosen:
        return data_dir() / "store.db"
    if "\0" in str(chosen):
        raise Unreadable("The path of a store cannot hold a NUL character; name another.")
    try:
        return Path(chosen).expanduser()
    except RuntimeError:
        raise Unreadable(
            f"{chosen} names the home of a user that is not there; name the store by its full path."
        ) from None


def _configured_path() -> str:
    section = load_config().get("store", {})
    path = section.get("path", "") if isinstance(section, dict) else ""
    if not isinstance(path, str):
        raise StoreError(f"In {config_file()}, [store] path must be text in quotes.")
    return path


def make_private_folder(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path
