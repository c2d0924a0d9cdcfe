"""Comparison of a case's result with its expectations: one finding for each difference.

A finding has its place, both values, and no more than helps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from noetl.services.callbacks.open_callbacks import AwaitedCallback
from noetl.testing.mocks import matches, shown

TOLERANCE = 0.001
"""Seconds of virtual time that count as the same."""
MOST = 8
"""Differences that are reported for one value."""
_ABSENT = object()


@dataclass(frozen=True)
class Finding:
    """One thing that is not as expected.

    ``where``: ``result.cities[2]``; ``expected`` and ``got``: JSON, "" when there is only a message.
    """

    where: str
    expected: str = ""
    got: str = ""
    message: str = ""


@dataclass(frozen=True)
class ObservedValues:
    """What is compared.

    ``path``: steps in the order of entering; ``events``: (name, what it is about) in order.
    """

    status: str
    result: Any
    error: Mapping[str, Any] | None
    ctx: Mapping[str, Any]
    vars: Mapping[str, Any]
    elapsed: float | None
    path: Sequence[str]
    calls: Mapping[str, Sequence[Mapping[str, Any]]]
    executions: Mapping[str, Sequence[str]]
    events: Sequence[tuple[str, str]] = ()
    problems: Sequence[str] = field(default=())
    """Calls that the case did not provide for, replies without a call, happenings whose moment never came."""
    unanswered: Sequence[AwaitedCallback] = ()


def check(seen: ObservedValues, expect: Mapping[str, Any]) -> list[Finding]:
    """Everything that is not as expected, the most telling first."""
    found = [Finding("tools", message=problem) for problem in seen.problems]
    found += _outcome(seen, expect)
    found += _path(seen, expect)
    found += _calls(seen, expect)
    for scope in ("ctx", "vars"):
        values = getattr(seen, scope)
        for name, wanted in (expect.get(scope) or {}).items():
            found += differences(wanted, values.get(name, _ABSENT), f"{scope}.{name}")
    found += _executions(seen, expect)
    found += _events(seen, expect)
    if "elapsed" in expect and (seen.elapsed is None or abs(seen.elapsed - expect["elapsed"]) > TOLERANCE):
        got = "never ended" if seen.elapsed is None else f"{seen.elapsed:g} s"
        found.append(Finding("elapsed", f"{expect['elapsed']:g} s", got))
    return found


def _outcome(seen: ObservedValues, expect: Mapping[str, Any]) -> Iterator[Finding]:
    wanted = expect.get("status") or ("failed" if expect.get("error") else "completed")
    if seen.status != wanted:
        error = seen.error or {}
        why = ": ".join(str(error[name]) for name in ("step", "message") if error.get(name))
        yield Finding(
            "status", wanted, seen.status, why or "\n".join(map(_to_answer, seen.unanswered[:MOST]))
        )
    if "result" in expect and (seen.status == "completed" or wanted == "completed"):
        yield from differences(
            expect["result"], seen.result if seen.status == "completed" else _ABSENT, "result"
        )
    if "result_has" in expect and not _has(expect["result_has"], seen.result):
        yield Finding("result", f"at least {shown(expect['result_has'])}", shown(seen.result))
    for name, value in (expect.get("error") or {}).items():
        got = (seen.error or {}).get(name, False if name == "retryable" and seen.error else None)
        inside = name in ("message", "position")
        if inside and value in (got or ""):
            continue
        if name == "details" and _has(value, got or {}):
            continue
        if inside or name == "details" or got != value:
            yield Finding(f"error.{name}", f"… {value} …" if inside else shown(value), shown(got))


def _to_answer(callback: AwaitedCallback) -> str:
    """Say which line of the case answers a callback."""
    index = "" if callback.index is None else f", index: {callback.index}"
    body = "{ approved: true }" if callback.approve else "null"
    return (
        f"step {callback.step} waits for an answer\n"
        f"add under `happenings`:  - {{ when: idle, callback: {{ step: {callback.step}{index}, body: {body} }} }}"
    )


def _has(part: Any, whole: Any) -> bool:
    return matches(part, whole)


def differences(wanted: Any, got: Any, where: str) -> list[Finding]:
    """Where two JSON values differ: ``1`` and ``1.0`` and ``true`` do."""
    return list(_differences(wanted, got, where))[:MOST]


def _differences(wanted: Any, got: Any, where: str) -> Iterator[Finding]:
    if got is _ABSENT:
        yield Finding(where, shown(wanted), "nothing")
    elif wanted is _ABSENT:
        yield Finding(where, "nothing", shown(got))
    elif isinstance(wanted, Mapping) and isinstance(got, Mapping):
        for key in [*wanted, *(key for key in got if key not in wanted)]:
            yield from _differences(wanted.get(key, _ABSENT), got.get(key, _ABSENT), f"{where}.{key}")
    elif isinstance(wanted, list) and isinstance(got, list):
        for index in range(max(len(wanted), len(got))):
            one = wanted[index] if index < len(wanted) else _ABSENT
            other = got[index] if index < len(got) else _ABSENT
            yield from _differences(one, other, f"{where}[{index}]")
    elif type(wanted) is not type(got) or wanted != got:
        yield Finding(where, shown(wanted), shown(got))


def _path(seen: ObservedValues, expect: Mapping[str, Any]) -> Iterator[Finding]:
    if "path" in expect and not _is_path(expect["path"], seen.path):
        yield Finding("path", path_text(expect["path"]), path_text(seen.path))
    counted = Counter(seen.path)
    for step in expect.get("never") or ():
        if counted[step]:
            yield Finding(f"never.{step}", "not entered", f"entered {times(counted[step])}")
    for step, wanted in (expect.get("runs") or {}).items():
        if counted[step] != wanted:
            yield Finding(f"runs.{step}", f"entered {times(wanted)}", f"entered {times(counted[step])}")


def _is_path(wanted: Sequence[Any], got: Sequence[str]) -> bool:
    """Return whether the path matches; a list within it means these steps in any order."""
    place = 0
    for entry in wanted:
        names = entry if isinstance(entry, list) else [entry]
        if sorted(got[place : place + len(names)]) != sorted(names):
            return False
        place += len(names)
    return place == len(got)


def path_text(path: Sequence[Any]) -> str:
    """``start → {a, b} → end``."""
    parts = [f"{{{', '.join(entry)}}}" if isinstance(entry, list) else entry for entry in path]
    return " → ".join(parts) or "no step"


def times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _calls(seen: ObservedValues, expect: Mapping[str, Any]) -> Iterator[Finding]:
    for key, wanted in (expect.get("calls") or {}).items():
        calls = seen.calls.get(key, [])
        count = wanted if isinstance(wanted, int) else len(wanted)
        if len(calls) != count:
            yield Finding(f"calls.{key}", f"called {times(count)}", f"called {times(len(calls))}")
        if isinstance(wanted, int):
            continue
        for number, (part, call) in enumerate(zip(wanted, calls, strict=False)):
            for name, value in part.items():
                if name not in call or not matches(value, call[name]):
                    got = shown(call[name]) if name in call else "nothing"
                    yield Finding(f"calls.{key}[{number}].{name}", shown(value), got)


def _executions(seen: ObservedValues, expect: Mapping[str, Any]) -> Iterator[Finding]:
    if "executions" in expect:
        wanted = {path: sorted(found) for path, found in (expect["executions"] or {}).items()}
        got = {path: sorted(found) for path, found in seen.executions.items()}
        yield from differences(wanted, got, "executions")


def _events(seen: ObservedValues, expect: Mapping[str, Any]) -> Iterator[Finding]:
    """Expected events occur in this order; others may lie between them."""
    rest = iter(seen.events)
    for number, wanted in enumerate(expect.get("events") or ()):
        name, _, about = wanted.partition(" ")
        if not any(name == event and about in ("", entity) for event, entity in rest):
            seen_events = ", ".join(f"{event} {entity}" for event, entity in seen.events if event == name)
            yield Finding(f"events[{number}]", wanted, seen_events or "no such event", "the order counts")
            return
