"""A kind that somebody adds: all that a deployment asks of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from noetl.domain.kinds import KindSpec
from noetl.kinds.registry import Registry
from noetl.kinds.support.params import KindParams


class Params(KindParams):
    """None."""


def registry_with(*specs: KindSpec) -> Registry:
    """The built-in kinds and these."""
    made = Registry(discover=False)
    for spec in specs:
        made.add(SimpleNamespace(SPEC=spec, Params=Params, run=lambda params, context: None))
    return made


def kind(name: str, **facts: Any) -> KindSpec:
    return replace(KindSpec(name=name, summary="Made up.", pool="io", needs_network=True), **facts)
