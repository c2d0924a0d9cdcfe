"""Shared base of kinds that run a program: arguments, environment, and exit codes."""

from __future__ import annotations

import re
import signal
from typing import Any

from pydantic import Field, field_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import TaskContext, TaskResult
from noetl.domain.sizes.gate import find_unfit
from noetl.kinds.sandbox.program import Finished, Program, run_program
from noetl.kinds.sandbox.settings import limits_of, places_of
from noetl.kinds.sandbox.watch import Watch
from noetl.kinds.support.base import KindParams
from noetl.kinds.support.foreign_json import foreign_value

Scalar = str | int | float | bool
STDERR_TAIL = 2000
LOADER_VARIABLE = re.compile(r"(LD|DYLD)_")


class ProgramParams(KindParams):
    """Arguments and environment of a program."""

    args: list[Scalar] = Field(default_factory=list, description="Arguments, given to the program as text.")
    env: dict[str, Scalar | dict[str, Any] | list[Any]] = Field(
        default_factory=dict,
        description="Environment variables of the program; a mapping or a list becomes JSON.",
    )

    @field_validator("args")
    @classmethod
    def _no_nul(cls, value: list[Scalar]) -> list[Scalar]:
        if any(isinstance(item, str) and "\0" in item for item in value):
            raise ValueError("an argument cannot hold a NUL character")
        return value

    @field_validator("env")
    @classmethod
    def _usable_names(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, item in value.items():
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in str(item):
                raise ValueError(f"{name!r} cannot be an environment variable")
            if LOADER_VARIABLE.match(name):
                raise ValueError(f"{name!r} would change how programs are loaded and is not allowed")
        return value

    def texts(self) -> list[str]:
        """Return the arguments as the program receives them."""
        return [as_text(value) for value in self.args]


def run_to_result(
    name: str,
    command: list[str],
    params: ProgramParams,
    context: TaskContext,
    own: tuple[str, ...] = (),
    begins_in: str = "",
) -> TaskResult:
    """Run a program to its end: ``{exit_code, stdout, stderr, data}``.

    ``data`` is the last line of stdout when that is JSON, else None. The task's input, when it has one, is the program's standard input
    as one JSON document. ``name``: the program in messages. ``own``: files that it may read wherever they are. ``begins_in``: as that of
    ``Program``. Raises TaskError: ``exit_<n>`` or ``signal_<NAME>`` (``details``: exit code, ends of stdout and stderr), ``timeout``,
    ``cancelled``, ``output_limit``, ``disk_limit``, ``out_of_memory``.
    """
    program = Program(
        command,
        codec.encode(dict(context.input)) if context.input else b"",
        {name: as_text(value) for name, value in params.env.items()},
        own,
        begins_in,
    )
    settings = context.settings
    finished = run_program(program, limits_of(settings), places_of(settings), Watch.start(context))
    if finished.returncode != 0:
        raise _failure(name, finished)
    stdout = finished.stdout.decode("utf-8", "replace")
    return TaskResult(
        {
            "exit_code": 0,
            "stdout": stdout,
            "stderr": finished.stderr.decode("utf-8", "replace"),
            "data": last_line_value(stdout),
        }
    )


def as_text(value: Scalar | dict[str, Any] | list[Any]) -> str:
    if isinstance(value, (dict, list)):
        return codec.encode(value).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)


def _failure(name: str, finished: Finished) -> TaskError:
    stderr = finished.stderr.decode("utf-8", "replace")
    last = stderr.strip().rsplit("\n", 1)[-1][:300]
    number = finished.returncode
    if number < 0:
        by = signal.Signals(-number).name if -number in set(signal.Signals) else str(-number)
        code, words = f"signal_{by}", f"was ended by {by}"
    else:
        code, words = f"exit_{number}", f"ended with exit code {number}"
    return TaskError(
        f"{name} {words}" + (f": {last}" if last else ""),
        kind="unknown",
        code=code,
        details={
            "exit_code": number,
            "stderr": stderr[-STDERR_TAIL:],
            "stdout": finished.stdout.decode("utf-8", "replace")[-STDERR_TAIL:],
        },
    )


def last_line_value(stdout: str) -> Any:
    """Decode the last line of an output; None when it is no JSON."""
    line = stdout.strip().rsplit("\n", 1)[-1]
    try:
        value = foreign_value(line.encode("utf-8", "surrogatepass"), "the last line of the output")
    except (ValueError, RecursionError):
        return None
    return None if find_unfit(value) else value
