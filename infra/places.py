"""Where the parts of a deployment are: in a checkout, or in the wheel, which carries them as noetl_cdk/project."""

from __future__ import annotations

from pathlib import Path

from noetl.local.layout import cache

HOME = Path(__file__).resolve().parent.parent
"""The folder with cdk.json, infra, functions, layers/deps and playbooks/examples."""
IS_CHECKOUT = (HOME / "pyproject.toml").is_file()
BUILDS = HOME / "build" if IS_CHECKOUT else cache()
"""What is built for a deployment; an installed package may be read-only."""
