"""The names that templates of a pipeline see, looked up one at a time.

A bare name resolves: names of the moment (``outcome``, ``result``, ``event`` …) → scopes (``ctx``, ``iter`` …) → task input → step-run
arguments → iterator → sibling tasks → ``vars`` → ``ctx`` → step results → ``workload`` (docs/dsl.md, "Scopes seen by templates").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import TemplateError
from noetl.domain.patches.scope_patches import MISSING
from noetl.pipeline.event_scope import MOMENT, own_result
from noetl.pipeline.surroundings import Item, Keychain, Surroundings
from noetl.pipeline.template_views import label_view
from noetl.templating import StepView, View, wrap
from noetl.templating.views import MISSING as UNKNOWN
from noetl.templating.views import MapView

if TYPE_CHECKING:
    from noetl.pipeline.run import Run
    from noetl.pipeline.state import Local


class ScopeView(View):
    """``ctx``, ``vars``, ``step``: one entry is looked up when it is touched."""

    __slots__ = ("_also", "_run", "_where")

    def __init__(self, run: Run, where: str, also: str | None = None) -> None:
        self._run = run
        self._where = where
        self._also = also

    def attribute(self, name: str) -> Any:
        value = self._run.written(self._where, name)
        if value is MISSING and self._also is not None:
            value = self._run.written(self._also, name)
        return UNKNOWN if value is MISSING else wrap(value, self._run.around.hydrate)

    def value(self) -> Any:
        return MapView(self.plain(), self._run.around.hydrate)

    def plain(self) -> dict[str, Any]:
        below = self._run.all_written(self._also) if self._also is not None else {}
        return {**below, **self._run.all_written(self._where)}

    def keys(self) -> Iterable[str]:
        return self.plain().keys()


class WorkloadView(MapView):
    """``workload``: knows the keys the playbook declares, for "did you mean"."""

    __slots__ = ("_declared",)

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around.frozen.workload, around.hydrate)
        self._declared = around.declared

    def keys(self) -> Iterable[str]:
        return dict.fromkeys((*self.raw, *self._declared))


class EntryView(MapView):
    """An entry of the keychain: a mapping, which inside a text is the one text it has."""

    __slots__ = ()

    def content(self) -> Any:
        """Return an entry's only field. Raises TemplateError when it has several."""
        fields = list(self.raw)
        if len(fields) != 1 or not isinstance(self.raw[fields[0]], str):
            raise TemplateError(
                f"an entry of the keychain with {len(fields)} fields cannot stand in a text",
                hint=f"name one: keychain.<name>.{' or .'.join(map(str, fields))}"[:300],
            )
        return self.raw[fields[0]]


class KeychainView(View):
    """``keychain``: secrets are fetched one at a time, when they are touched."""

    __slots__ = ("_fetch",)

    def __init__(self, fetch: Keychain) -> None:
        self._fetch = fetch

    def attribute(self, name: str) -> Any:
        return EntryView(dict(self._fetch(name)))

    def plain(self) -> Any:
        raise TemplateError(
            "keychain cannot be used as a value", hint="name one entry: keychain.<name>.<field>"
        )

    value = plain


def iteration(item: Item | None, written: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``iter``.

    The element by its name, ``index``, ``parent``, and ``set_iter`` values.
    """
    if item is None:
        return dict(written)
    found: dict[str, Any] = {"index": item.index, item.iterator: item.value}
    if item.parent is not None:
        found["parent"] = dict(item.parent)
    return {**found, **written}


def loop_of(item: Item) -> dict[str, Any]:
    """Return ``loop`` during one iteration."""
    return {
        "index": item.index,
        "first": item.index == 0,
        "last": item.index == item.total - 1,
        "length": item.total,
        "done": False,
    }


def lookup(run: Run, name: str) -> Any:
    """Return the value of a bare name, wrapped. Raises KeyError."""
    special = _SPECIAL.get(name)
    if special is not None:
        value = special(run)
        if value is not MISSING:
            return value
    around, frozen = run.around, run.around.frozen
    hydrate = around.hydrate
    if name in frozen.extra:
        return wrap(frozen.extra[name], hydrate)
    if name in run.input:
        return wrap(run.input[name], hydrate)
    if name in frozen.args:
        return wrap(frozen.args[name], hydrate)
    element = _element(run, name)
    if element is not MISSING:
        return wrap(element, hydrate)
    for local in _locals(run):
        if name in local.labels:
            return label_view(local.labels[name], hydrate, local.promoted.get(name))
    for where in ("vars", "ctx"):
        value = run.written(where, name)
        if value is not MISSING:
            return wrap(value, hydrate)
    step = around.aliases.get(name, name)
    if step == around.step and run.pipeline.names_itself and (own := own_result(run)) is not None:
        return own
    if step in frozen.steps:
        return StepView(frozen.steps[step], hydrate)
    if name in frozen.workload:
        return wrap(frozen.workload[name], hydrate)
    raise KeyError(name)


def _element(run: Run, name: str) -> Any:
    """Return the element that is called ``name``, the innermost first."""
    for item in reversed((run.item, *run.levels.items)):
        if item is not None and name == item.iterator:
            return item.value
    return MISSING


def _locals(run: Run) -> Iterator[Local]:
    """Yield the visible labels: those of the current iteration, then those around it."""
    yield run.state
    for level in reversed(run.state.levels):
        yield level.outer


def names(run: Run) -> Iterable[str]:
    """Every name there is, for "did you mean"."""
    frozen = run.around.frozen
    yield from run.input
    yield from frozen.args
    for item in (*run.levels.items, run.item):
        if item is not None:
            yield item.iterator
    for local in _locals(run):
        yield from local.labels
    yield from run.overlay.names("vars")
    yield from run.overlay.names("ctx")
    yield from frozen.steps
    yield from run.around.aliases
    yield from frozen.workload
    yield from run.around.declared
    yield from (name for name, find in _SPECIAL.items() if find(run) is not MISSING)


def _arguments(run: Run) -> Any:
    return MapView({**run.around.frozen.args, **run.input}, run.around.hydrate)


def _index(run: Run) -> Any:
    return MISSING if run.here is None else run.here.index


def _loop(run: Run) -> Any:
    return MISSING if run.here is None else loop_of(run.here)


def _callback(run: Run) -> Any:
    """Return the callback that this run waits for next."""
    make = run.around.callback
    if make is None:
        return MISSING
    token, url = make(run.item, run.state.callbacks)
    return MapView({"url": url, "token": token})


def _now(run: Run) -> Any:
    """Return the time of the event: the end of the latest call, or else that of the command."""
    return lambda: run.around.frozen.now + run.overlay.elapsed_ms / 1000


_SPECIAL: dict[str, Callable[[Run], Any]] = {
    **MOMENT,
    "ctx": lambda run: ScopeView(run, "ctx", "vars"),
    "vars": lambda run: ScopeView(run, "vars"),
    "step": lambda run: ScopeView(run, "step"),
    "workload": lambda run: WorkloadView(run.around),
    "keychain": lambda run: KeychainView(run.around.keychain),
    "iter": lambda run: MapView(iteration(run.here, run.state.iter), run.around.hydrate),
    "args": _arguments,
    "input": _arguments,
    "loop": _loop,
    "_index": _index,
    "loop_index": _index,
    "execution_id": lambda run: str(run.around.execution_id),
    "job": lambda run: MapView(run.around.frozen.job),
    "callback": _callback,
    "now": _now,
}
