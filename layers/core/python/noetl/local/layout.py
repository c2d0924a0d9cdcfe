"""Folders of the local stack.

State and data are below the home, tools in a cache shared by all homes.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from noetl.adapters.embedded.server import home as default_home
from noetl.domain.errors import InfrastructureError

CACHE = "NOETL_CACHE"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one local stack."""

    root: Path

    @property
    def state(self) -> Path:
        """What runs (see ``state``)."""
        return self.root / "state.json"

    @property
    def lock(self) -> Path:
        """Held while the stack is brought up or down."""
        return self.root / "lock"

    @property
    def emulator_log(self) -> Path:
        return self.root / "emulator.log"

    @property
    def emulator_config(self) -> Path:
        return self.root / "emulator.json"

    @property
    def ignored(self) -> Path:
        """A JSON line for each resource that the emulator accepted and ignored."""
        return self.objects / "ignored.jsonl"

    @property
    def deploy_log(self) -> Path:
        """Everything the CDK printed."""
        return self.root / "deploy.log"

    @property
    def scratch(self) -> Path:
        """Temporary files of the emulator and its functions; emptied at each start."""
        return self.root / "tmp"

    @property
    def objects(self) -> Path:
        """What the emulator keeps between two starts."""
        return self.root / "emulator"

    @property
    def unpacked_layers(self) -> Path:
        return self.root / "layers"

    @property
    def assembly(self) -> Path:
        """The synthesized stacks."""
        return self.root / "cdk.out"

    @property
    def outputs(self) -> Path:
        return self.root / "outputs.json"

    @property
    def postgres(self) -> Path:
        """The data folder of the Postgres behind the emulator's RDS."""
        return self.root / "postgres"


def layout(home: str | None) -> Layout:
    """The local stack of ``home`` (default: NOETL_HOME, then ~/.noetl)."""
    base = Path(home).expanduser().resolve() if home else default_home()
    return Layout(base / "local")


def cache() -> Path:
    """Folder of downloaded tools: NOETL_CACHE, else the user's cache folder."""
    chosen = os.environ.get(CACHE)
    if chosen:
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().resolve() / "noetl"


def _of_wheel() -> Path:
    return Path(__file__).resolve().parents[2] / "noetl_cdk" / "project"


def project(start: Path | None) -> Path:
    """Return the project whose stacks are deployed.

    It is ``start``, or the nearest folder with cdk.json and infra/, or what this library came with.

    That is its checkout, or the copy in its wheel.

    Raises InfrastructureError when there is none.
    """
    begin = (start or Path.cwd()).expanduser().resolve()
    candidates = (
        [begin] if start else [begin, *begin.parents, Path(__file__).resolve().parents[5], _of_wheel()]
    )
    for folder in candidates:
        if (folder / "cdk.json").is_file() and (folder / "infra").is_dir():
            return folder
    raise InfrastructureError(
        f"{begin} is not a checkout of NoETL Serverless: it has no cdk.json beside an infra folder",
        code="project_missing",
        hint="run this in the checkout, or name it: noetl local up --project DIR",
        retryable=False,
    )
