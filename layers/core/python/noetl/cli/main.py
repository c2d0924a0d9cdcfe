"""Entry of the ``noetl`` command: it turns every error into a message and an exit code."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import suppress

from noetl.cli.errors import ENVIRONMENT, NO_MEMORY, guarded
from noetl.runtime.collector import collect_rarely


def main() -> int:
    """Run the command line in ``sys.argv``; return the exit code (see ``noetl.cli.errors``)."""
    collect_rarely()
    sys.unraisablehook = _ignored
    atexit.register(_freeze)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    try:
        return guarded(_app)
    except (MemoryError, SystemError):  # also while an error was being told
        with suppress(OSError):
            os.write(2, NO_MEMORY)
        return ENVIRONMENT


def _ignored(unraisable: sys.UnraisableHookArgs) -> None:
    """Print no line about a lack of memory in a finaliser.

    The command itself reports it.
    """
    if not issubclass(unraisable.exc_type, MemoryError):
        sys.__unraisablehook__(unraisable)


def _freeze() -> None:
    """Skip the interpreter's last collection of garbage.

    The system takes the memory back anyway.

    DuckDB reports every object that this look would have found as a leak, so a process that has loaded it takes the look.
    """
    if "_duckdb" not in sys.modules:
        gc.freeze()


def _app() -> None:
    try:
        from noetl.cli.app import app
        from noetl.cli.lazy_commands import command_of, with_command
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("noetl"):
            raise
        print(  # noqa: T201
            f"error: the package {missing.name} is missing\n"
            "  hint: the installation is not whole: pip install --force-reinstall noetl-serverless",
            file=sys.stderr,
        )
        raise SystemExit(ENVIRONMENT) from None
    command_of(with_command(app, sys.argv[1:]))()
