"""The environment variables that ferrule reads itself, all of them here. None selects a kernel."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Where ferrule keeps files that it makes: `$XDG_CACHE_HOME`/ferrule, by default ~/.cache/ferrule."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ferrule"
