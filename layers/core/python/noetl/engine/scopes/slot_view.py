"""The view of a decision: the slots that were read for it, and large results on demand.

The shell reads what the compiler says is needed. A name that the compiler did not foresee raises ``NeedSlots``; the shell reads it and
decides again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from noetl.domain.callbacks import SCOPE, CallbackId, run_of
from noetl.domain.errors import TaskError
from noetl.domain.loop_resume import LoopResume, Ranges
from noetl.domain.outcomes.outcomes import Patch
from noetl.domain.patches.scope_patches import MISSING
from noetl.domain.results.references import INLINE_LIMIT
from noetl.domain.sizes.table import INLINE_MOVES, NESTING, WINDOW
from noetl.engine.folds.run_results import RUN

Key = tuple[str, str]
SCOPES = frozenset(("args", "workload", "ctx", "vars", "step", "run", "callback"))
"""All but ``undo``, which holds as many slots as runs were registered: those are asked for one by one."""


class NeedSlots(BaseException):
    """The signal that the decision needs slots that were not read yet; not an error.

    A BaseException, because it has to pass through template evaluation, which turns every Exception into an author's error.
    """

    def __init__(self, names: frozenset[str] = frozenset(), scopes: frozenset[str] = frozenset()) -> None:
        super().__init__(names, scopes)
        self.names = names
        self.scopes = scopes


def no_hydration(ref: Mapping[str, Any]) -> Any:
    """Refuse to hydrate, because no result store is available."""
    raise TaskError(
        f"the result {ref.get('ref')} cannot be read here",
        kind="storage_access",
        code="REFERENCE_NOT_AVAILABLE",
    )


class Limits(msgspec.Struct, frozen=True):
    """Numbers a decision depends on; one set per deployment."""

    inline_bytes: int = INLINE_LIMIT
    tier: str = "file"
    """Name of the result store that blobs of a decision go to."""
    window: int = WINDOW.value
    """Most items of one loop in flight, even when the playbook asks for more."""
    max_depth: int = NESTING.value
    """Deepest nesting of sub-playbooks."""
    inline_moves: int = INLINE_MOVES.value
    """Step runs entered within one decision before it is called an endless cycle without work (four times as many, where steps
    have tools). From half of it on, tools that the engine would run itself go to a worker, so that a long way is several decisions."""
    inline_runs: int = 10_000
    """Step runs of an execution after which that is not done any more: a cycle of nothing but such tools ends as an endless one."""


class EarlierLoop(msgspec.Struct, frozen=True):
    """The state of an earlier loop run that a later one continues.

    ``picked``: the items that run again, out of ``whole``. ``items`` (or ``items_ref``): the whole collection. ``overlay``: what kept items
    wrote that is not in the context yet.
    """

    whole: int
    picked: Ranges
    items: list[Any] | None
    items_ref: dict[str, Any] | None
    overlay: list[Patch] = []


def no_earlier(again: LoopResume, *, fail_fast: bool, sequential: bool) -> EarlierLoop:
    """Refuse to continue a loop run, because no store is available."""
    raise TaskError(
        f"loop run {again.run}.{again.round} cannot be read here",
        kind="storage_access",
        code="loop_not_available",
    )


def no_proofs(found: CallbackId) -> Sequence[str]:
    """Return nothing: where no keys are available, a token counts as long as its key is known."""
    return ()


class View(msgspec.Struct):
    """Slots by (scope, name), complete for each name in ``names`` and scope in ``scopes``."""

    slots: dict[Key, Any] = msgspec.field(default_factory=dict)
    names: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    hydrate: Any = no_hydration
    limits: Limits = Limits()
    earlier: Callable[..., EarlierLoop] = no_earlier
    """What an earlier loop run, which is over and so never changes, leaves: ``(Again, fail_fast=, sequential=)``."""
    taken: frozenset[int] = frozenset()
    """Execution ids that the store refused for children of this decision: other executions have them."""
    proofs: Callable[[CallbackId], Sequence[str]] = no_proofs
    """What the wait for a callback keeps of its tokens (domain/callbacks.py)."""
    fresh: dict[str, Any] = msgspec.field(default_factory=dict)
    """Values that decisions of this batch put aside (by URI): durable only once the batch is."""

    def load(self, ref: Mapping[str, Any]) -> Any:
        """Return the value of a reference. Raises TaskError(code="REFERENCE_NOT_AVAILABLE")."""
        value = self.fresh.get(str(ref.get("ref")), MISSING)
        return self.hydrate(ref) if value is MISSING else value

    def lazily(self, ref: Mapping[str, Any]) -> Any:
        """Load a reference as ``load`` does; of a list in parts, return a ``PartedList``."""
        value = self.fresh.get(str(ref.get("ref")), MISSING)
        return getattr(self.hydrate, "lazily", self.hydrate)(ref) if value is MISSING else value

    def get(self, key: Key, default: Any = MISSING) -> Any:
        value = self.slots.get(key, MISSING)
        if value is not MISSING:
            return value
        if self.knows(key):
            return default
        raise NeedSlots(names=frozenset((key[1],)))

    def knows(self, key: Key) -> bool:
        """Return whether the slot was read: one that was read and is missing does not exist."""
        return key[1] in self.names or key[0] in self.scopes

    def scope(self, scope: str) -> dict[str, Any]:
        """Return all of a scope."""
        if scope not in self.scopes:
            raise NeedSlots(scopes=frozenset((scope,)))
        return {name: value for (where, name), value in self.slots.items() if where == scope}


class Loader:
    """A ``Hydrate`` over a view."""

    __slots__ = ("lazily", "load")

    def __init__(self, view: View) -> None:
        self.load = view.load
        self.lazily = view.lazily

    def __call__(self, ref: Mapping[str, Any]) -> Any:
        return self.load(ref)


class Overlay:
    """A view with the writes of a decision on top.

    ``writes``: value, or ``DELETED``. ``runs``: numbers of the runs whose own result may be stored; the state knows them, so no
    other one is ever asked for or deleted in the store.
    """

    __slots__ = ("over", "runs", "view", "writes")

    def __init__(self, view: View, runs: frozenset[str] = frozenset()) -> None:
        self.view = view
        self.runs = runs
        self.over: list[int] = []
        """Runs whose callbacks are forgotten: the store drops those that were not read."""
        self.writes: dict[Key, Any] = {}

    def get(self, key: Key, default: Any = MISSING) -> Any:
        if key in self.writes:
            value = self.writes[key]
            return default if value is DELETED else value
        return default if self._is_absent(key) else self.view.get(key, default)

    def _is_absent(self, key: Key) -> bool:
        """Return whether the store is known to have no such slot.

        Writes of this decision do not count.
        """
        if key in self.view.slots:
            return False
        return self.view.knows(key) or (key[0] == RUN and key[1] not in self.runs)

    def __setitem__(self, key: Key, value: Any) -> None:
        self.writes[key] = value

    def pop(self, key: Key, default: Any = None) -> Any:
        if self._is_absent(key):
            self.writes.pop(key, None)
        else:
            self.writes[key] = DELETED
        return default

    def require(self, names: Iterable[str], scopes: Iterable[str]) -> None:
        """Demand that these names and scopes are read. Raises NeedSlots once for all missing ones."""
        view = self.view
        missing = frozenset(name for name in names if name not in view.names)
        lacking = frozenset(scope for scope in scopes if scope not in view.scopes)
        if missing or lacking:
            raise NeedSlots(missing, lacking)

    def drop_scope(self, scope: str) -> None:
        """Forget what is known of a scope; the store drops the rest when the execution ends."""
        for key in {*self.view.slots, *self.writes}:
            if key[0] == scope:
                self.writes[key] = DELETED

    def drop_callbacks(self, run: int) -> None:
        """Forget what is known of callbacks of a run; the store drops the rest with the commit."""
        for key in {*self.view.slots, *self.writes}:
            if key[0] == SCOPE and run_of(key[1]) == run:
                self.pop(key)
        self.over.append(run)

    def scope(self, scope: str) -> dict[str, Any]:
        values = self.view.scope(scope)
        for (where, name), value in self.writes.items():
            if where == scope:
                if value is DELETED:
                    values.pop(name, None)
                else:
                    values[name] = value
        return values


DELETED: Any = type("Deleted", (), {"__repr__": lambda self: "DELETED"})()


class ScopeMapping(Mapping[str, Any]):
    """One scope (``ctx``, ``vars``, ``workload``) as templates see it.

    It looks up one entry at a time. ``also`` names a second scope whose entries show through (``ctx`` shows ``vars``).
    """

    __slots__ = ("also", "slots", "where", "wrap")

    def __init__(self, slots: Overlay, where: str, wrap: Any, also: str | None = None) -> None:
        self.slots = slots
        self.where = where
        self.also = also
        self.wrap = wrap

    def __getitem__(self, name: str) -> Any:
        value = self.slots.get((self.where, name))
        if value is MISSING and self.also is not None:
            value = self.slots.get((self.also, name))
        if value is MISSING:
            raise KeyError(name)
        return self.wrap(value)

    def _all(self) -> dict[str, Any]:
        below = self.slots.scope(self.also) if self.also is not None else {}
        return {**below, **self.slots.scope(self.where)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
