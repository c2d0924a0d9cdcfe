"""Build hook of the wheel: put the documentation and the build of the web UI into the package."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT = "NOETL_WHEEL_WITHOUT_UI"


class UiBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds ``docs`` as ``noetl/docs``, and ``ui/dist`` as ``noetl/ui_static``. An editable install reads the checkout's own build."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the build. Raises RuntimeError without one, unless the environment asks for a wheel without."""
        if version == "editable":
            return
        build_data["force_include"][str(Path(self.root) / "docs")] = "noetl/docs"
        if os.environ.get(WITHOUT):
            return
        built = Path(self.root) / "ui" / "dist"
        if not (built / "index.html").is_file():
            raise RuntimeError(
                f"the web UI is not built: run `make ui` first, or set {WITHOUT}=1 for a wheel without it"
            )
        build_data["force_include"][str(built)] = "noetl/ui_static"
