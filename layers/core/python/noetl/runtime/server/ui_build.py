"""The folder with the build of the web UI."""

from __future__ import annotations

from pathlib import Path

import noetl

PACKAGED = "ui_static"
"""The folder of package data that a wheel carries the build in."""


def ui_folder(package: Path | None = None) -> Path:
    """Find the build of the UI: in the package, or in its checkout, where `make ui` puts it."""
    root = package or Path(noetl.__file__).parent
    packaged = root / PACKAGED
    if (packaged / "index.html").is_file() or len(root.parents) < 4:
        return packaged
    return root.parents[3] / "ui" / "dist"
