"""The laws of the simulator: what has to hold for every execution, each under a name.

A law is a function that raises AssertionError where it is broken; the message then begins with the law's name. The first sentence of its
docstring says what it demands. docs/guarantees.md lists all of them, and a test compares the list with this one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
When = Literal["always", "call", "quiet", "end"]
"""``always``: between any two moves (in audits); ``call``: at every call of a tool or of the store; ``quiet``: when nothing is left to do for
the moment, while a family is paused; ``end``: when everything is over."""


@dataclass(frozen=True, slots=True)
class Law:
    """``says``: the first sentence of the docstring. ``module``: where it is checked, without the package."""

    name: str
    when: When
    says: str
    module: str


LAWS: dict[str, Law] = {}


class LawBrokenError(AssertionError):
    """The message begins with the law's name."""


def law(name: str, when: When) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a check the name of the law that it holds executions to."""

    def register(check: Callable[P, R]) -> Callable[P, R]:
        assert name not in LAWS, f"two laws are called {name}"
        says = " ".join((inspect.getdoc(check) or "").split("\n\n")[0].split())
        LAWS[name] = Law(name, when, says, check.__module__.rpartition(".")[2])

        @functools.wraps(check)
        def held(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return check(*args, **kwargs)
            except LawBrokenError:
                raise
            except AssertionError as broken:
                raise LawBrokenError(f"law {name}: {broken}") from broken

        return held

    return register
