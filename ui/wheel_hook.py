"""Build hook of the wheel: put the documentation, the build of the web UI, and what a deployment needs, into it."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

WITHOUT = "NOETL_WHEEL_WITHOUT_UI"


PROJECT = "noetl_cdk/project"
DEPLOYED = (
    "cdk.json",
    "infra/package.json",
    "infra/package-lock.json",
    "infra/**/*.py",
    "functions/**/*",
    "layers/deps/*",
    "playbooks/examples/**/*",
)
"""What `noetl deploy` and `noetl local up` read of a checkout."""


class UiBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """Adds ``docs``, ``ui/dist`` as ``noetl/ui_static``, and the project of deployments as ``noetl_cdk/project``.

    An editable install reads the checkout's own.
    """

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Include the build of these sources.

        Raises RuntimeError without one, unless the environment asks for a wheel without.
        """
        if version == "editable":
            return
        build_data["force_include"][str(Path(self.root) / "docs")] = "noetl/docs"
        build_data["force_include"].update(self._project())
        if os.environ.get(WITHOUT):
            return
        root = Path(self.root)
        built = root / "ui" / "dist"
        problem = _problem(root, built)
        if problem:
            raise RuntimeError(f"{problem}: run `make ui` first, or set {WITHOUT}=1 for a wheel without it")
        build_data["force_include"][str(built)] = "noetl/ui_static"

    def _project(self) -> dict[str, str]:
        root = Path(self.root)
        return {
            str(path): f"{PROJECT}/{path.relative_to(root).as_posix()}"
            for pattern in DEPLOYED
            for path in sorted(root.glob(pattern))
            if path.is_file() and not {"node_modules", "__pycache__"} & set(path.relative_to(root).parts)
        }


def _problem(root: Path, built: Path) -> str:
    """Why the build is none of these sources; empty when it is."""
    if not (built / "index.html").is_file():
        return "the web UI is not built"
    sources = _sources(root)
    made_from = sources.kept(root)
    if made_from is None:
        return "the build of the web UI does not say which sources it was made from"
    if made_from != sources.digest(root):
        return "the build of the web UI was made from other sources than these"
    return ""


def _sources(root: Path) -> ModuleType:
    """Load the module beside this one: a hook is run by its path, so it cannot import it."""
    spec = importlib.util.spec_from_file_location("noetl_ui_sources", root / "ui" / "sources.py")
    if spec is None or spec.loader is None:
        raise RuntimeError("ui/sources.py is missing")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
