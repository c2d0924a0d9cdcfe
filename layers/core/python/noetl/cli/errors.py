"""Exit codes, and errors as people and machines read them.

Tracebacks go to the log, never to the terminal.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from noetl.adapters.embedded.measured import memory_shortage
from noetl.domain.errors import InfrastructureError, NoetlError, PlaybookError, TaskError
from noetl.domain.shortages import MEMORY, PROCESSES, shortage
from noetl.domain.text.untrusted_text import CONTINUED, escape_block, escape_line, log_entry

DONE = 0
FAILED = 1
USAGE = 2
ENVIRONMENT = 3
INTERRUPTED = 130

DEBUG = "NOETL_DEBUG"
_LOG_LIMIT = 5 * 1024 * 1024
NO_MEMORY = f"error: {MEMORY.reason}\n  hint: {MEMORY.remedy}\n".encode()
"""Made before it is needed: writing it takes no memory."""


class ReportedError(Exception):
    """An error that the command has reported already. ``code``: its exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class OutputFullError(ReportedError):
    """The output of a command cannot be written (a full disk); the error is printed already."""

    def __init__(self, error: OSError) -> None:
        super().__init__(ENVIRONMENT)
        silence_stdout()
        _say(_unwritten(error))


class ReaderGoneError(ReportedError):
    """The reader of the output has left (``noetl events … | head``). It is no failure."""

    def __init__(self) -> None:
        super().__init__(DONE)


def exit_code(error: NoetlError) -> int:
    """Families of errors, not messages, decide the exit code."""
    if isinstance(error, InfrastructureError):
        return ENVIRONMENT
    if isinstance(error, TaskError):
        return FAILED
    return USAGE


def guarded(command: Callable[[], None]) -> int:
    """Run ``command``; turn its end into an exit code.

    Errors become a message on stderr.
    """
    _terminate_like_interrupt()
    try:
        command()
        code = DONE
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else DONE if stop.code is None else FAILED
    except ReportedError as reported:
        code = reported.code
    except KeyboardInterrupt:
        _say("interrupted")
        code = INTERRUPTED
    except NoetlError as error:
        _say(describe(error))
        _debug()
        code = exit_code(error)
    except Exception as error:
        code = _unexpected(error)
    return _flushed(code)


def _terminate_like_interrupt() -> None:
    """End a run on SIGTERM as on Ctrl-C.

    What is done is kept, and the rest can be resumed.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    if (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    ):
        signal.signal(signal.SIGTERM, interrupt)


def _flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except OSError as error:
        silence_stdout()
        if code == DONE:
            _say(_unwritten(error))
            code = ENVIRONMENT
    try:
        sys.stderr.flush()
    except OSError:
        _silence(sys.stderr)  # the interpreter would end with a code of its own
    return code


def _unwritten(error: OSError) -> str:
    hint = "free space on the disk of the output, or write to another disk; the command itself succeeded"
    return f"error: the output cannot be written: {error.strerror or error}\n  hint: {hint}"


def silence_stdout() -> None:
    """Nothing that is still in its buffers may complain when the interpreter ends."""
    _silence(sys.stdout)


def _silence(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _say(text: str) -> None:
    """Print lines on stderr. When it cannot be written, the exit code alone reports the error."""
    with suppress(OSError):
        print(escape_block(text), file=sys.stderr, flush=True)  # noqa: T201


def _debug() -> None:
    if os.environ.get(DEBUG):
        traceback.print_exc()


def _unexpected(error: Exception) -> int:
    """Report an unforeseen error in one line, with the remedy.

    It is a defect, an environment that was not foreseen, or an exhausted machine.
    """
    short = shortage(error)
    if (
        short is None or short is PROCESSES
    ):  # a thread needs memory for its stack, and says so in no other words
        short = memory_shortage() or short
    if short is not None:
        place = f" ({error.filename})" if isinstance(error, OSError) and error.filename else ""
        _say(f"error: {short.reason}{place}\n  hint: {short.remedy}")
        _debug()
        return ENVIRONMENT
    where = _log_traceback()
    what = " ".join(str(error).split())[:300]
    _say(f"error: unexpected {type(error).__name__}{f': {what}' if what else ''}")
    if where is not None:
        _say(f"  log: {where}")
    if os.environ.get(DEBUG):
        traceback.print_exc()
    else:
        _say(f"  hint: {DEBUG}=1 shows the traceback; `noetl doctor` checks the environment")
    return ENVIRONMENT


def log_dir() -> Path:
    """``<home>/logs``, as far as it is known without settings (they may be what failed)."""
    return Path(os.environ.get("NOETL_HOME") or "~/.noetl").expanduser() / "logs"


def _log_traceback() -> Path | None:
    path = log_dir() / "cli.log"
    try:
        for folder in (path.parent.parent, path.parent):  # the home folder too may be made here
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if path.exists() and path.stat().st_size > _LOG_LIMIT:
            path.replace(path.with_suffix(".log.1"))
        with path.open("a", encoding="utf-8", errors="backslashreplace") as log:
            entry = f"{datetime.now(UTC).isoformat()} {sys.argv[1:]!r}\n{traceback.format_exc()}"
            log.write(f"{log_entry(entry)}\n")
    except OSError:
        return None
    return path


# --- what an error looks like -------------------------------------------------------------------


def describe(error: NoetlError) -> str:
    """Format an error: message, then code, position and hint.

    A line each; an invalid playbook as its list of problems.
    """
    diagnostics = getattr(error, "diagnostics", None)
    if isinstance(error, PlaybookError) and diagnostics:
        return describe_diagnostics(diagnostics, getattr(error, "source_name", ""))
    return _lines(error.message, error.code, _position(error), error.hint)


def describe_failure(error: dict[str, Any]) -> str:
    """Format an execution's error (see ``read_execution``) as lines.

    They show the line of the playbook, and what the call was made with.
    """
    message = str(error.get("message", "failed"))
    code = error.get("code") or error.get("kind")
    details = error.get("details") or {}
    within = details.get("execution_id")
    return _lines(message, code, error.get("position"), error.get("hint"), details.get("input"), within)


def _lines(message: str, code: Any, position: Any, hint: Any, called: Any = None, within: Any = None) -> str:
    first, *others = message.splitlines() or [""]
    lines = [f"error: {escape_line(first)}", *(f"{CONTINUED}{escape_line(line)}" for line in others)]
    shown = json.dumps(called, ensure_ascii=False) if called else ""
    for label, value in (
        ("code", code),
        ("at", position and near(str(position))),
        ("called with", shown),
        ("execution", within),
        ("hint", hint),
    ):
        if value:
            lines.append(f"  {label}: {escape_line(str(value))}")
        if label == "at" and position:
            lines += _pointed(str(position))
    return "\n".join(lines)


def _pointed(position: str) -> list[str]:
    """Show the line of ``file:line:column``, and a caret below it.

    Nothing when the file can no longer be read.
    """
    name, _, place = position.rpartition(":")
    name, _, line = name.rpartition(":")
    if not (line.isdecimal() and place.isdecimal() and name):
        return []
    return _shown(_source_lines(name), int(line), int(place))


def _shown(lines: Sequence[str], line: int, column: int) -> list[str]:
    if not 0 < line <= len(lines):
        return []
    text = lines[line - 1].rstrip()
    if not 0 < column <= len(text) + 1 or column > 160:
        return []
    text = text if len(text) <= 160 else text[:159] + "…"
    return [f"    {escape_line(text)}", f"    {' ' * (column - 1)}^"]


def near(path: str) -> str:
    """A path below the working folder without that folder; any other as it is."""
    try:
        here = f"{Path.cwd()}{os.sep}"
    except OSError:
        return path
    return path.removeprefix(here)


def _position(error: NoetlError) -> str | None:
    line, column = error.details.get("line"), error.details.get("column")
    if not line:
        return None
    source = error.details.get("source") or error.details.get("source_name") or "playbook"
    return f"{source}:{line}:{column or 1}"


def describe_diagnostics(diagnostics: Sequence[Any], source_name: str) -> str:
    """List every problem, and how many there are.

    Each with the line it is about, when the source can still be read.
    """
    lines = _source_lines(source_name)
    shown: list[str] = []
    for problem in diagnostics:
        shown.append(problem.format(near(source_name)))
        shown += _shown(lines, problem.line, problem.column)
    return "\n".join([*shown, describe_counts(diagnostics)])


def describe_counts(diagnostics: Sequence[Any]) -> str:
    """Count the problems of each severity: ``1 error, 2 warnings``.

    Empty where there are none.
    """
    from noetl.dsl.diagnostics import SEVERITIES

    counts = Counter(problem.severity for problem in diagnostics)
    return ", ".join(
        f"{counts[word]} {word}{'' if counts[word] == 1 else 's'}" for word in SEVERITIES if counts[word]
    )


def _source_lines(source_name: str) -> list[str]:
    try:
        path = Path(source_name)
        if path.stat().st_size > 2 * 1024 * 1024:
            return []
        return path.read_text("utf-8").expandtabs(1).splitlines()
    except (OSError, UnicodeDecodeError, ValueError):
        return []


def as_json(error: NoetlError) -> dict[str, Any]:
    """An error for ``--json``: code, message, hint, retryable, details."""
    return {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
        "retryable": error.retryable,
        "details": error.details,
    }
