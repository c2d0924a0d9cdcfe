"""Conformance cases: what one is, how it is found, and its stored history.

A case is a folder ``playbooks/conformance/<feature>/<case>`` with ``playbook.yaml``, other playbooks it calls, ``case.yaml``
(payload, scripted replies, happenings, which steps are held back, expectations) and ``history.yaml``: the stored event names of every step run.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from noetl.domain.commands import Command
from noetl.testing import play_case
from noetl.testing.driver import Pick
from noetl.testing.play_case import Backend, Observed, Scenario, Worker
from tests.parts import collected

ROOT = Path(__file__).parents[2] / "playbooks" / "conformance"
TWIN = "twin.yaml"
"""The same playbook written in the other form: what it does, and the history it leaves, are the same."""
NOT_PLAYBOOKS = ("case.yaml", "history.yaml", TWIN)


class CaseLoader(yaml.CSafeLoader):
    """``on`` and ``yes`` are text in case files, as they are in playbooks."""


CaseLoader.yaml_implicit_resolvers = {
    letter: [
        (tag, pattern)
        for tag, pattern in found
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
CaseLoader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))


@dataclass(frozen=True)
class Case:
    name: str
    folder: Path
    spec: Mapping[str, Any]

    @property
    def expect(self) -> Mapping[str, Any]:
        return self.spec["expect"]

    @property
    def twin(self) -> Path:
        return self.folder / TWIN

    @property
    def history_file(self) -> Path:
        return self.folder / "history.yaml"


def load(path: str | Path) -> Any:
    return yaml.load(Path(path).read_text(), Loader=CaseLoader)


@functools.cache
def find_cases() -> list[Case]:
    """Every case, by name."""
    return [
        Case(str(file.parent.relative_to(ROOT)), file.parent, load(file))
        for file in sorted(ROOT.glob("*/*/case.yaml"))
    ]


def played(
    names: Iterable[str],
    on_postgres: Iterable[str],
    gate: Container[str] = (),
    in_memory: Container[str] | None = None,
) -> list[Any]:
    """Make parameters: every name in memory, these on Postgres; of them those in ``gate`` in `make test`.

    ``in_memory``: those that `make test` plays in memory; None: all.
    """
    found = []
    for name in names:
        left = [] if in_memory is None or name in in_memory else [pytest.mark.full]
        found.append(pytest.param("memory", name, id=f"memory-{name}", marks=left))
    for name in on_postgres:
        marks = [pytest.mark.postgres, *([] if name in gate else [pytest.mark.full])]
        found.append(pytest.param("postgres", name, id=f"postgres-{name}", marks=marks))
    return collected(found)


def sources_of(case: Case) -> dict[str, str]:
    """The playbooks of a case by file name."""
    files = [file for file in sorted(case.folder.glob("*.yaml")) if file.name not in NOT_PLAYBOOKS]
    return {file.name: file.read_text() for file in files}


def play(
    case: Case,
    backend: Backend,
    worker: Worker,
    pick: Pick | None = None,
    sources: Mapping[str, str] | None = None,
) -> Observed:
    """Run a case to the point where nothing more can happen. ``sources`` take the place of its playbooks of the same names."""
    scenario = Scenario(
        sources={**sources_of(case), **(sources or {})},
        main="playbook.yaml",
        payload=case.spec.get("payload", {}),
        tools=case.spec.get("tools", {}),
        happenings=case.spec.get("happenings", ()),
        order=case.spec.get("order", "forward"),
    )
    return play_case.play(scenario, backend, worker, _holding(pick or play_case.PICKS[scenario.order], case))


def _holding(pick: Pick, case: Case) -> Pick:
    """``pick``; but commands of steps that the case names as ``held`` run when no other one is ready."""
    held = case.spec.get("held", ())

    def choose(ready: Sequence[Command]) -> int:
        free = [place for place, command in enumerate(ready) if command.step not in held]
        return free[pick([ready[place] for place in free])] if free else pick(ready)

    return choose if held else pick


NUMBERED = re.compile(r"(?P<before>.*[#\[])(?P<number>\d+)(?P<after>\]?)")


def compact(steps: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Step runs and items in a row with the same names as one: ``fetch#2-9``, ``fetch[0-99]``."""
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    told: dict[str, list[str]] = {}
    for key, names in steps.items():
        found = NUMBERED.fullmatch(key)
        if found is None:
            told[key] = names
            continue
        base, number = (found["before"], found["after"]), int(found["number"])
        low, high = spans.get(base, (number, number - 1))
        if number != high + 1 or told.get(_span(base, low, high), names) != names:
            low = high = number
        told.pop(_span(base, low, high), None)
        spans[base] = (low, number)
        told[_span(base, low, number)] = names
    return told


def _span(base: tuple[str, str], low: int, high: int) -> str:
    return f"{base[0]}{low}{base[1]}" if low >= high else f"{base[0]}{low}-{high}{base[1]}"


def dump_history(histories: Mapping[str, Mapping[str, list[str]]]) -> str:
    """``history.yaml``: one line per step run, or per row of runs that went alike."""

    def lines() -> Iterator[str]:
        for execution, steps in histories.items():
            yield f'"{execution}":' if execution else "this:"
            for key, names in compact(steps).items():
                shown = f'"{key}"' if "[" in key or "#" in key else key
                yield f"  {shown}: [{', '.join(names)}]"

    return "\n".join(lines()) + "\n"


def load_history(case: Case) -> dict[str, dict[str, list[str]]]:
    """The expected history, as ``compact`` makes it."""
    written = load(case.history_file)
    return {"" if name == "this" else name: steps for name, steps in written.items()}
