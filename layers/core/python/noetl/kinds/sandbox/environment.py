"""The environment of a task: of its worker's, only what an interpreter needs to start."""

from __future__ import annotations

import os

SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"
LOADER_VARIABLES = ("LD_LIBRARY_PATH",)
"""Kept from the worker: some interpreters, Lambda's among them, do not start without."""


def scrubbed_environment() -> dict[str, str]:
    """Return what every task may have of the worker's environment."""
    kept = {name: os.environ[name] for name in LOADER_VARIABLES if name in os.environ}
    return {"PATH": SEARCH_PATH, "LANG": "C.UTF-8", **kept}
