"""Findings about a server's machine, and its settings without a secret."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from noetl.api.http.machine_report import MachineCheck, MachineReport
from noetl.runtime.local.machine_checks import machine_checks
from noetl.runtime.settings import Settings


def machine_report(settings: Settings) -> MachineReport:
    """Check this machine, and list the settings."""
    own = str(Path.home())
    checks = [
        MachineCheck(one.name, one.status, one.detail.replace(own, "~"), one.fix.replace(own, "~"))
        for one in machine_checks(settings.home)
    ]
    return MachineReport(checks, masked(settings))


def masked(settings: Any) -> dict[str, Any]:
    """List settings: numbers and switches as they are, of everything else whether it is set.

    A text may be an address with a password, or a key, so no text is shown at all.
    """
    shown: dict[str, Any] = {}
    for field in fields(settings):
        value = getattr(settings, field.name)
        if is_dataclass(value):
            shown[field.name] = masked(value)
        elif value is None or isinstance(value, bool | int | float):
            shown[field.name] = value
        else:
            shown[field.name] = "set" if value else "not set"
    return shown
