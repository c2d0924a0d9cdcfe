"""Surroundings of a command's runs.

The frozen scope, and the functions that reach outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from noetl.domain.commands import FrozenScope
from noetl.domain.errors import TemplateError
from noetl.domain.outcomes.outcomes import ErrorInfo
from noetl.domain.results.references import is_ref
from noetl.dsl.program import ResultSpec
from noetl.pipeline.overlay import Overlay
from noetl.pipeline.state import State
from noetl.templating.contract import Hydrate

Keychain = Callable[[str], Mapping[str, Any]]
"""``keychain.<name>``: the credential's data. Raises TaskError(kind="auth")."""


def no_keychain(name: str) -> Mapping[str, Any]:
    raise TemplateError(
        f"keychain.{name} cannot be read here", hint="secrets are read by tasks that a worker runs"
    )


def no_entries() -> Mapping[str, str]:
    """Return the entries of a keychain where there is none."""
    return {}


def as_it_is(value: Any) -> Any:
    """Return a result of a nested loop unchanged, where nothing can be stored."""
    return value


def own_reference(value: Any) -> Any:
    """``output.ref`` where nothing can be stored: only what is a reference already has one."""
    return value.get("ref") if is_ref(value) else None


class Item(msgspec.Struct, frozen=True):
    """One iteration of a loop."""

    index: int
    value: Any
    iterator: str
    total: int
    parent: Mapping[str, Any] | None = None
    variables: bool = False
    """``vars.<step>_index`` and its companions are kept (``kind: iterator``)."""
    place: int = -1
    """Where it is in its loop run; -1: at ``index``, as in every run that is about all items."""


ChildId = Callable[[int, Item | None, State], tuple[int, int]]
"""The id of the n-th sub-execution (from 1) that a turn starts without waiting, in an item or outside any loop, and how many derivations
of it were passed over."""


def no_child(number: int, item: Item | None, state: State) -> tuple[int, int]:
    raise TemplateError("a sub-execution cannot be started here")


def untouched(error: ErrorInfo) -> ErrorInfo:
    return error


CallbackToken = Callable[[Item | None, int], tuple[str, str]]
"""(token, address) of the n-th callback (from 0) of a run, in an item or outside any loop. Raises TemplateError where there is none."""


@dataclass(slots=True)
class Surroundings:
    """The frozen scope and the functions that reach outside it, shared by a command's runs."""

    frozen: FrozenScope
    execution_id: int
    step: str
    source_name: str = ""
    hydrate: Hydrate | None = None
    keychain: Keychain = no_keychain
    refer: Callable[[Any], Any] = own_reference
    child_id: ChildId = no_child
    keep: Callable[[Any], Any] = as_it_is
    """One result of a nested loop → what is kept of it until the loop is over: itself, or the reference of a large one."""
    hide: Callable[[ErrorInfo], ErrorInfo] = untouched
    """An error without secrets: rules may copy its text anywhere."""
    declared: tuple[str, ...] = ()
    """Keys of the playbook's own ``workload``: the frozen scope holds only those that are read."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Second names of results → steps."""
    callback: CallbackToken | None = None
    """None: nothing here waits for a callback, and ``callback`` is a name like any other."""
    part: Callable[[Any, ResultSpec | None], dict[str, Any]] | None = None
    """(a piece of what ``accumulate`` gathers) → its entry in a manifest; it is stored in the result store. None: all stays in the state."""
    modules: str = ""
    """What differs between two versions of the playbook's modules and libraries; empty: it has none."""
    stage: tuple[str, int] = ("body", -1)
    """The stage of the step and, in a case, the entry whose tasks these are."""
    credentials: Callable[[], Mapping[str, str]] = no_entries
    """The entries of the keychain → the credentials that they mean in this execution."""
    folder: str = ""
    """The folder of the playbook's own file, from which its tasks read relative paths; empty: it has none."""
    bounded: bool = False
    """The budget of the execution bounds what is called here (``Program.bounds``)."""
    bases: Mapping[str, Mapping[str, Any]] = field(init=False)

    def __post_init__(self) -> None:
        frozen = self.frozen
        left = frozen.extra.get("step")
        self.bases = {"ctx": frozen.ctx, "vars": frozen.vars, "step": left if isinstance(left, dict) else {}}

    def overlay(self) -> Overlay:
        return Overlay(self.bases, self.hydrate)
