"""What a rule is: a name, a sentence that explains it, and a rewriting of the page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noetl.migration.page import Page


@dataclass(frozen=True, slots=True)
class Rule:
    """``apply`` rewrites the page in place; applied again it changes nothing."""

    name: str
    summary: str
    apply: Callable[[Page], None]
    repairs: bool = False
    """It changes programs that compile, where they can only fail or find nothing."""
    finishes: bool = False
    """It is applied once, after all others, where the original compiles to no program that has to stay."""
