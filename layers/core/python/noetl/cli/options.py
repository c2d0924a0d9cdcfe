"""Options and arguments that many commands share, and what they say together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line, for machines.")]
Home = Annotated[
    str | None,
    typer.Option("--home", help="Folder of engine data, instead of NOETL_HOME or ~/.noetl.", metavar="DIR"),
]
Remote = Annotated[
    bool,
    typer.Option(
        "--remote", help="Use the server of the current context (noetl context) instead of this machine."
    ),
]
Context = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        envvar="NOETL_CONTEXT",
        show_envvar=False,
        help="Use the server of this context; NOETL_CONTEXT sets it for every command.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")]
Reason = Annotated[str, typer.Option(help="Why; kept in history.")]
Correlation = Annotated[
    str,
    typer.Option(
        "--correlation-id",
        metavar="ID",
        help="What it belongs to in another system, such as a ticket; kept in history.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="NAME=VALUE",
        help="A value, typed like YAML 1.2 or JSON; dots nest: --set limits.days=7. Repeatable.",
    ),
]
Payload = Annotated[
    str | None,
    typer.Option("--payload", "-p", metavar="FILE", help="Payload as a JSON or YAML file; - for stdin."),
]
Priority = Annotated[
    int | None,
    typer.Option("--priority", min=-1000, max=1000, help="Higher goes first; the playbook's own without it."),
]
Target = Annotated[
    str, typer.Argument(metavar="FILE|PATH", help="A playbook file, or a registered path (path@version).")
]
Key = Annotated[
    str,
    typer.Option(
        "--idempotency-key",
        metavar="KEY",
        help="The same key starts one execution, however often the command is repeated.",
    ),
]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Text for lists and filters. Repeatable."),
]
TaskFolders = Annotated[
    list[str] | None,
    typer.Option(
        "--task-folder",
        metavar="DIR",
        help="A folder that code of tasks may read and write; shell commands begin in the first. Repeatable.",
    ),
]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Run every task, also one with a `cache` whose result is known.")
]
Strict = Annotated[
    bool, typer.Option("--strict", help="Refuse --set of a name that the playbook neither has nor reads.")
]
Filters = Annotated[
    list[str] | None,
    typer.Option(
        "--filter",
        metavar="KEY=VALUE",
        help="All that fit: status, path, version, parent, started_before, started_after, id, label, principal, error_code, text. Repeatable.",
    ),
]
Before = Annotated[
    str | None,
    typer.Option(metavar="AGE", help="Started longer ago than 90m, 2h, 3d; or before a moment (RFC 3339)."),
]
Limit = Annotated[
    int, typer.Option("--limit", "-n", min=1, max=1000, help="At most this many, newest first.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
MaybeId = Annotated[str | None, typer.Argument(metavar="[ID]", help="An execution id, or `latest`.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="An execution id, or `latest`.")]


class Selection(msgspec.Struct, frozen=True):
    """Which executions, when not one by its id, and whether they are to be asked for first."""

    filters: Sequence[str]
    before: str | None
    limit: int
    dry_run: bool
    yes: bool


def selection(
    filters: list[str] | None, before: str | None, limit: int, dry_run: bool, yes: bool
) -> Selection:
    return Selection(tuple(filters or ()), before, limit, dry_run, yes)


def end(code: int) -> None:
    """The command is over, with this exit code."""
    raise typer.Exit(code)


class CommandTarget(msgspec.Struct, frozen=True):
    """The place that a command is about.

    ``home``: the folder of engine data, and of contexts. ``context``: a context's name, empty for the one in use; None: this machine.
    ``task_folders``: the options of that name, as they were written.
    """

    home: str | None = None
    context: str | None = None
    task_folders: Sequence[str] = ()

    @property
    def remote(self) -> bool:
        return self.context is not None

    @property
    def option(self) -> str:
        """What a command line that is suggested needs in order to mean the same place."""
        if self.context is None:
            return ""
        return f" --context {self.context}" if self.context else " --remote"


def where(
    home: str | None, remote: bool, context: str | None, folders: list[str] | None = None
) -> CommandTarget:
    """What ``--home``, ``--remote`` and ``--context`` (or NOETL_CONTEXT) say together.

    ``folders``: those of ``--task-folder``.
    """
    return CommandTarget(home, context or ("" if remote else None), folders or ())
