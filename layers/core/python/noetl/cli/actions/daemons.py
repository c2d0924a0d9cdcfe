"""Processes in the background: start, stop, status."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from noetl.cli import errors
from noetl.cli.options import end
from noetl.cli.render.output import duration, note, out, out_json, table
from noetl.domain.errors import InvalidInputError, NotFoundError
from noetl.runtime.server.daemons import Process, Processes

Detach = Annotated[
    bool,
    typer.Option(
        "--detach",
        "-d",
        help="Run in the background; return when it is ready, and print the path of its log.",
    ),
]
ProcessName = Annotated[
    str | None, typer.Option("--name", metavar="NAME", help="Name for `stop` and `status`.")
]
Stopped = Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which one; none: the only one.")]
Everyone = Annotated[bool, typer.Option("--all", help="All of them.")]
Patience = Annotated[
    float, typer.Option("--timeout", min=0.0, metavar="SECONDS", help="Kill it when it takes longer to end.")
]
LOG = "NOETL_PROCESS_LOG"
"""The variable that names the log file of a process in the background."""


def processes(home: Path) -> Processes:
    return Processes.of_home(home)


def detach(home: Path, kind: str, name: str | None, words: Sequence[str], *, as_json: bool) -> None:
    """Run ``noetl WORDS --name NAME`` in the background, and end this command."""
    made = start(home, kind, name, words)
    if as_json:
        out_json(made)
    else:
        for line in started_lines(made):
            out(line)
    end(errors.DONE)


def started_lines(made: Process) -> tuple[str, str]:
    """Say what runs in the background now, and how to end it."""
    return (
        f"{_title(made)}, process {made.pid}; {_about(made)}",
        f"log in {made.log}; `noetl {made.kind} stop {made.name}` ends it",
    )


def start(home: Path, kind: str, name: str | None, words: Sequence[str]) -> Process:
    """Run ``noetl WORDS --name NAME`` in the background, and wait until it is ready.

    Without a name it takes the first free one. Raises InvalidInputError for a name that is taken.
    """
    running = processes(home)
    taken = {one.name for one in running.running(kind)}
    free = (kind if number == 1 else f"{kind}-{number}" for number in range(1, 1000))
    chosen = name or next(one for one in free if one not in taken)
    if chosen in taken:
        raise InvalidInputError(
            f"{kind} {chosen} runs already",
            code="already_running",
            hint=f"`noetl {kind} stop {chosen}` ends it; --name takes another name",
        )
    log = home / "logs" / f"{chosen if chosen.startswith(kind) else f'{kind}-{chosen}'}.log"
    # Without -P it would import modules from the folder that it begins in, where tasks may write.
    command = [sys.executable, "-P", "-m", "noetl.cli", *words, "--name", chosen]
    return running.start(kind, chosen, command, log, {**os.environ, "NOETL_HOME": str(home), LOG: str(log)})


def stop(home: Path, kind: str, name: str | None, *, everyone: bool, seconds: float, as_json: bool) -> None:
    """End one, or all; each hands back what it could not end."""
    running = processes(home)
    found = running.running(kind)
    if name is not None and everyone:
        raise InvalidInputError("--all names all of them", code="invalid_options", hint="leave the name out")
    if name is not None:
        found = [one for one in found if one.name == name]
        if not found:
            raise NotFoundError(
                f"no {kind} {name[:80]!r} runs", code=f"{kind}_not_running", hint=f"`noetl {kind} status`"
            )
    elif not everyone and len(found) > 1:
        raise InvalidInputError(
            f"which one? {', '.join(one.name for one in found)} run",
            code="ambiguous",
            hint=f"`noetl {kind} stop NAME`, or --all",
        )
    for one in found:
        ended = running.stop(one, seconds)
        if as_json:
            out_json({"kind": kind, "name": one.name, "pid": one.pid, "stopped": True, "killed": not ended})
        else:
            out(f"{_title(one)} has ended" if ended else f"{_title(one)} did not end in time, and was killed")
    if not found and not as_json:
        note(f"no {kind} runs")
    end(errors.DONE)


def status(home: Path, kind: str, *, as_json: bool) -> None:
    """What runs; 1 when nothing does."""
    found = processes(home).running(kind)
    if as_json:
        for one in found:
            out_json(one)
    elif found:
        rows = [(one.name, str(one.pid), _age(one), _about(one), one.log or "(a terminal)") for one in found]
        out(table((kind.upper(), "PROCESS", "RUNNING FOR", "ABOUT", "LOG"), rows))
    else:
        note(f"no {kind} runs; `noetl {kind} start --detach` starts one")
    end(errors.DONE if found else errors.FAILED)


def _title(one: Process) -> str:
    return one.kind if one.name == one.kind else f"{one.kind} {one.name}"


def _age(one: Process) -> str:
    return duration(max(0.0, time.time() - one.started_at) * 1000)


def _about(one: Process) -> str:
    return ", ".join(f"{name} {_shown(value)}" for name, value in one.about.items()) or "starting"


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
