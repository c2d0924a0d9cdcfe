"""The digest of what a build of the web UI is made from; `make ui` writes it into the build, and the wheel's hook reads it.

As a program: print the digest, or with a digest as argument write that one into the build.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    "ui/src",
    "ui/public",
    "ui/index.html",
    "ui/package.json",
    "ui/package-lock.json",
    "ui/tsconfig.json",
    "ui/vite.config.ts",
    "docs/openapi.json",
    "docs/event.schema.json",
)
"""Files, and folders with all that is in them."""
MADE = "ui/src/api/schema.d.ts"
"""The build writes this one, from docs/openapi.json."""
KEPT = "ui/dist/.vite/sources.sha256"


def digest(root: Path = ROOT) -> str:
    """Compute the digest of the names and contents of the sources."""
    found = hashlib.sha256()
    for name, path in sorted(_files(root).items()):
        found.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()


def kept(root: Path = ROOT) -> str | None:
    """Read the digest of the sources that the build was made from; None for a build without one."""
    try:
        return (root / KEPT).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError):
        return None


def _files(root: Path) -> dict[str, Path]:
    found = {}
    for source in SOURCES:
        place = root / source
        for path in (place, *place.rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.is_file() and name != MADE:
                found[name] = path
    return found


if __name__ == "__main__":
    if sys.argv[1:]:
        (ROOT / KEPT).write_text(sys.argv[1] + "\n", encoding="ascii")
    else:
        sys.stdout.write(digest() + "\n")
