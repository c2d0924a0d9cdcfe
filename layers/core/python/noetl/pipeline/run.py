"""A run as its parts see it: the state of the machine, and what they may ask of it.

The parts (``rules``, ``actions``, ``nested`` …) name this protocol, and ``machine`` implements it. So no part imports the machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from noetl.domain.outcomes.outcomes import ErrorInfo, Outcome, Patch
from noetl.dsl.program import Node, Pipeline, SinkAction, Task
from noetl.pipeline.overlay import Overlay
from noetl.pipeline.requests import CallCache, Finish, TaskOutcome
from noetl.pipeline.state import State
from noetl.pipeline.surroundings import Item, Surroundings


class Levels:
    """The open nested loops, outermost first: their elements and current iterations.

    A resumed run makes them again.
    """

    __slots__ = ("elements", "items")

    def __init__(self) -> None:
        self.elements: list[Sequence[Any]] = []
        self.items: list[Item] = []


class Run(Protocol):
    """One pass over a pipeline."""

    pipeline: Pipeline
    around: Surroundings
    item: Item | None
    overlay: Overlay
    state: State
    sequences: list[tuple[Task, ...]]
    levels: Levels
    block: dict[str, Any]
    retrying: bool
    max_attempts: int
    cache_plans: dict[int, CallCache]
    """Frame (its number) → the cache of the call that it made last."""
    fresh: dict[int, tuple[CallCache, TaskOutcome]]
    """Frame → the answer of that call, until its task is left."""
    to_cache: list[tuple[CallCache, TaskOutcome]]

    @property
    def here(self) -> Item | None: ...
    @property
    def input(self) -> Mapping[str, Any]: ...
    def lookup(self, name: str) -> Any: ...
    def names(self) -> Iterable[str]: ...
    def render(self, node: Node) -> Any: ...
    def loaded(self, value: Any) -> Any: ...
    def is_true(self, node: Node) -> bool: ...
    def written(self, where: str, name: str) -> Any: ...
    def all_written(self, where: str) -> dict[str, Any]: ...
    def write(self, patch: Patch) -> None: ...
    def current_task(self) -> Task | None: ...
    def push(self, address: list[Any]) -> None: ...
    def pop(self) -> None: ...
    def inside_sink(self) -> bool: ...
    def sink_at(self, address: list[Any]) -> SinkAction: ...
    def fail(self, error: ErrorInfo) -> None: ...
    def start_tasks(self) -> None: ...
    def finish_tasks(self) -> None: ...
    def suspend(self, delay: float, *, spends: bool = False) -> Finish: ...
    def evaluate_block(self) -> None: ...
    def outcome(self) -> Outcome: ...
