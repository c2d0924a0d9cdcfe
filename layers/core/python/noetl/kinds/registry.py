"""The registry of tool kinds: facts, parameter checks, JSON Schema, and the call itself.

A built-in kind is one file beside this one, or ``kind.py`` in a folder of its own, and one line in ``BUILT_IN``. A package
adds its own with an entry point in the group ``noetl.kinds`` whose name is the kind's name and whose value is the module.
Either way the module is imported when that kind is first asked for, never before. It offers:

* ``SPEC``: a KindSpec
* ``Params``: a ``KindParams`` model
* ``run(params, context) -> TaskResult | ChildRequest | WaitRequest`` (left out by kinds that the compiler rewrites)
* ``EXAMPLE``: a mapping of parameters that passes ``check``
* optionally ``check(params) -> list[ParamProblem]``: what a model cannot express (``params`` may hold ``HOLE``)
* optionally ``notes(params) -> Iterable[ParamProblem]`` of severity ``note``: what an author may want to know about sound parameters
* optionally ``is_unseen(raw_params, context) -> bool``: whether others see no more of this call than its result and its lines;
  beside it ``is_at_hand(raw_params, context) -> bool``: whether such a call can be made now without getting ready for it
* optionally ``plain(params)``: rendered parameters that need no model to be checked, as ``run`` takes them, or None. With it a
  process runs the kind without loading ``Params``

The compiled Program carries what the engine needs of a kind (``Pipeline.pool``), so the engine imports none
of this.
"""

from __future__ import annotations

import importlib
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from functools import cache, cached_property
from importlib import metadata
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import NoetlError, PlaybookError, TaskError
from noetl.domain.kinds import JoinedList, KindSpec, ParamProblem, SqlEscape, TaskContext, TaskResult
from noetl.domain.outcomes.outcomes import ChildRequest, PollRequest, WaitRequest

if TYPE_CHECKING:
    from noetl.kinds.support.params import ParamsChecker

ENTRY_POINT_GROUP = "noetl.kinds"

BUILT_IN: Mapping[str, str] = MappingProxyType(
    {
        "agent": "noetl.kinds.agent",
        "artifact": "noetl.kinds.artifact",
        "container": "noetl.kinds.container",
        "duckdb": "noetl.kinds.duckdb.kind",
        "eventbridge": "noetl.kinds.eventbridge",
        "gcs": "noetl.kinds.gcs",
        "http": "noetl.kinds.http.kind",
        "iterator": "noetl.kinds.iterator",
        "lambda": "noetl.kinds.aws_lambda",
        "noop": "noetl.kinds.noop",
        "playbook": "noetl.kinds.playbook",
        "postgres": "noetl.kinds.postgres.kind",
        "python": "noetl.kinds.python",
        "resolve": "noetl.kinds.resolve",
        "s3": "noetl.kinds.s3",
        "script": "noetl.kinds.script",
        "secrets": "noetl.kinds.secrets",
        "shell": "noetl.kinds.shell",
        "snowflake": "noetl.kinds.snowflake.kind",
        "transfer": "noetl.kinds.transfer.kind",
        "wait": "noetl.kinds.wait",
        "workbook": "noetl.kinds.workbook",
    }
)

OTHER_NAMES: Mapping[str, str] = MappingProxyType({"result": "artifact"})
"""``KindSpec.other_names`` of the built-in kinds, known without importing them."""

Answer = TaskResult | ChildRequest | WaitRequest | PollRequest
Run = Callable[[Any, TaskContext], Answer]
Prepare = Callable[[Mapping[str, Any], TaskContext], None]
Stop = Callable[[Mapping[str, Any], TaskContext], None]
Test = Callable[[Mapping[str, Any], TaskContext], bool]
Check = Callable[[Mapping[str, Any]], Iterable[ParamProblem]]


class LoadedKind:
    """A kind whose module has been imported."""

    def __init__(self, kind: Any) -> None:
        self._kind = kind
        self.spec: KindSpec = kind.SPEC
        self.run: Run | None = None if self.spec.lowered else kind.run
        self.example: Mapping[str, Any] = getattr(kind, "EXAMPLE", {})
        self.extra_check: Check | None = getattr(kind, "check", None)
        self.notes: Check = getattr(kind, "notes", _no_notes)
        self.stop: Stop | None = getattr(kind, "stop", None)
        self.prepare: Prepare | None = getattr(kind, "prepare", None)
        self.is_unseen: Test = getattr(kind, "is_unseen", _no)
        self.is_at_hand: Test = getattr(kind, "is_at_hand", _no)
        self._plain: Callable[[Mapping[str, Any]], Any] = getattr(kind, "plain", _not_plain)
        if not hasattr(kind, "plain"):
            _ = self.params  # what is wrong with the model is found when the kind is loaded

    @cached_property
    def params(self) -> ParamsChecker:
        """Return the checker of parameters by the kind's model."""
        from noetl.kinds.support.params import ParamsChecker

        return ParamsChecker(self._kind.Params, self.spec)

    def parse(self, raw_params: Mapping[str, Any]) -> Any:
        """Parse rendered parameters into what ``run`` takes.

        Raises TaskError(kind="schema", code="kind_params").
        """
        found = self._plain(raw_params)
        return self.params.parse(raw_params) if found is None else found


def _no(params: Mapping[str, Any], context: TaskContext) -> bool:
    """Return False: others see the calls of a kind that does not say otherwise."""
    return False


def _no_notes(params: Mapping[str, Any]) -> Iterable[ParamProblem]:
    """Return nothing: there is nothing to know about the parameters of most kinds."""
    return ()


def _not_plain(params: Mapping[str, Any]) -> None:
    """Leave every parameter to the model."""


class Registry:
    """Kinds by name; implements ``domain.kinds.KindLookup``. Safe to share between threads."""

    def __init__(self, modules: Mapping[str, str] = BUILT_IN, *, discover: bool = True) -> None:
        """Make a registry. ``modules``: name → module path.

        ``discover``: also read the entry points of installed packages.
        """
        self._modules: dict[str, str] = dict(modules)
        self._own = modules is not BUILT_IN
        self._notes = False
        self._loaded: dict[str, LoadedKind] = {}
        self._added: list[Any] = []
        self._lock = threading.RLock()
        if discover:
            self._discover()

    def names(self) -> tuple[str, ...]:
        """List every kind, sorted."""
        return tuple(sorted(self._modules.keys() | self._loaded.keys()))

    def spec(self, name: str) -> KindSpec:
        """Return the facts of a kind.

        Raises KeyError (unknown) or PlaybookError(code="kind_unavailable") (its module cannot be used).
        """
        return self._load(name).spec

    def sql_problem(self, text: str) -> tuple[str, str | None, int] | None:
        from noetl.templating.sql import sql_problem

        return sql_problem(text)

    def sql_escapes(self, text: str) -> tuple[SqlEscape, ...]:
        from noetl.templating.sql_escapes import hand_escaped

        return hand_escaped(text)

    def sql_lists(self, text: str) -> tuple[JoinedList, ...]:
        from noetl.templating.sql_lists import joined_lists

        return joined_lists(text)

    def check(self, name: str, params: Mapping[str, Any]) -> list[ParamProblem]:
        """List every problem of ``params``; ``HOLE`` is used in the place of a template.

        Raises KeyError (unknown kind).
        """
        kind = self._load(name)
        problems = kind.params.check(params)
        if not problems and kind.extra_check is not None:
            problems = list(kind.extra_check(kind.params.canonical(params)))
        if not problems and self._notes:
            problems = list(kind.notes(kind.params.canonical(params)))
        return problems

    def with_notes(self) -> Registry:
        """Return a registry of the same kinds that checks as this one does, and adds notes.

        ``check`` returns them for parameters without a problem.
        """
        made = copy(self)
        made._notes = True
        return made

    def schema(self, name: str) -> dict[str, Any]:
        """Return the JSON Schema of the parameters as a playbook writes them.

        Aliases included, templates allowed.
        """
        return self._load(name).params.schema()

    def example(self, name: str) -> Mapping[str, Any]:
        """Return valid parameters of this kind, for docs and tests."""
        return self._load(name).example

    def add(self, kind: Any) -> None:
        """Register a module or object with ``SPEC``, ``Params`` and ``run``.

        It replaces its namesake.
        """
        loaded = LoadedKind(kind)
        with self._lock:
            self._loaded[loaded.spec.name] = loaded
            self._added.append(kind)

    def added_modules(self) -> list[str] | None:
        """Return the names of the modules that were added.

        None: another process cannot make an equal registry, since an object was added that is no module.
        """
        with self._lock:
            added = list(self._added)
        if self._own or not all(
            isinstance(one, ModuleType)
            and one.__name__ != "__main__"
            and sys.modules.get(one.__name__) is one
            for one in added
        ):
            return None
        return [one.__name__ for one in added]

    def run(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> Answer:
        """Call a kind with rendered parameters.

        Raises TaskError: ``kind="schema"`` with code ``kind_params`` (a field does not fit), ``unknown_kind``
        or ``kind_not_callable``; otherwise what the kind raised. What a kind raises that is not one of our
        errors becomes a TaskError of kind ``unknown``: a defective kind fails its task and not its worker.
        """
        try:
            kind = self._load(name)
        except KeyError:
            # A worker that meets no such name needs none of the compiler.
            from noetl.dsl.diagnostics import did_you_mean

            hint = did_you_mean(name, self.names())
            raise TaskError(
                f"there is no tool kind {name!r}", kind="schema", code="unknown_kind", hint=hint
            ) from None
        if kind.run is None:
            raise TaskError(
                f"tool kind {name!r} is rewritten by the compiler and cannot be called",
                kind="schema",
                code="kind_not_callable",
            )
        params = kind.parse(raw_params)
        try:
            return kind.run(params, context)
        except NoetlError:
            raise
        except Exception as error:
            raise TaskError(
                f"{name} failed: {type(error).__name__}: {error}", kind="unknown", code=type(error).__name__
            ) from error

    def prepare(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> None:
        """Let a kind get ready for a call that may follow.

        It raises nothing: the call meets the same error.
        """
        with suppress(Exception):
            prepare = self._load(name).prepare
            if prepare is not None:
                prepare(raw_params, context)

    def is_unseen(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> bool:
        """Return whether others see no more of this call than its result and its lines."""
        kind = self._loaded.get(name)
        return kind is not None and kind.is_unseen(raw_params, context)

    def is_at_hand(self, name: str, raw_params: Mapping[str, Any], context: TaskContext) -> bool:
        """Return whether an unseen call can be made now, without getting ready for it."""
        kind = self._loaded.get(name)
        return kind is not None and kind.is_at_hand(raw_params, context)

    def stop(self, name: str, state: Mapping[str, Any], context: TaskContext) -> None:
        """End the external job that a call of the kind began, by its PollRequest.

        Does nothing for a kind that cannot. Raises KeyError (unknown kind), and what the kind raises.
        """
        stop = self._load(name).stop
        if stop is not None:
            stop(state, context)

    def _discover(self) -> None:
        for point in metadata.entry_points(group=ENTRY_POINT_GROUP):
            if point.name in self._modules:
                warnings.warn(
                    f"kind {point.name!r} of {point.value} is ignored: a kind of that name exists already",
                    RuntimeWarning,
                    stacklevel=3,
                )
            else:
                self._modules[point.name] = point.value

    def _load(self, name: str) -> LoadedKind:
        found = self._loaded.get(name)
        if found is not None:
            return found
        if name not in self._modules and name in OTHER_NAMES:
            return self._load(OTHER_NAMES[name])
        path = self._modules[name]
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = _import_kind(name, path)
            return self._loaded[name]


@cache
def default_registry() -> Registry:
    """Return the registry of built-in and installed kinds, shared by the whole process."""
    return Registry()


def _import_kind(name: str, path: str) -> LoadedKind:
    try:
        loaded = LoadedKind(importlib.import_module(path))
    except Exception as error:
        raise PlaybookError(
            f"tool kind {name!r} cannot be used: {path}: {type(error).__name__}: {error}",
            code="kind_unavailable",
        ) from error
    if loaded.spec.name != name:
        raise PlaybookError(
            f"tool kind {name!r} cannot be used: {path} calls itself {loaded.spec.name!r}",
            code="kind_unavailable",
        )
    return loaded
