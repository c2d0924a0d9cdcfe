"""Findings about the machine of a server, and its settings."""

from __future__ import annotations

from typing import Any, Literal

import msgspec


class MachineCheck(msgspec.Struct, frozen=True):
    """A finding of `noetl doctor`. ``fix``: what to do when ``status`` is not ok."""

    name: str
    status: Literal["ok", "warning", "failed"]
    detail: str
    fix: str = ""


class MachineReport(msgspec.Struct, frozen=True):
    """What a machine lacks, and the settings of the server on it.

    ``settings``: numbers and switches; of texts only whether they are set.
    """

    checks: list[MachineCheck]
    settings: dict[str, Any]
