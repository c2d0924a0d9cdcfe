"""The list of commands in `noetl --help`, in groups by what a person wants to do."""

from __future__ import annotations

import click
from typer.core import TyperGroup

GROUPS: dict[str, tuple[str, ...]] = {
    "Run": ("init", "run", "exec", "resume", "test"),
    "Look": (
        "list",
        "status",
        "items",
        "events",
        "logs",
        "result",
        "analyze",
        "cost",
        "compare",
        "sql",
        "ui",
    ),
    "Steer": (
        "cancel",
        "pause",
        "unpause",
        "redrive",
        "callback",
        "inject",
        "ctx",
        "vars",
    ),
    "Write playbooks": ("validate", "fmt", "migrate", "lock", "graph", "schema", "register", "catalog"),
    "Start by time or event, share": ("schedule", "trigger", "credential", "limit"),
    "Servers": ("serve", "server", "worker", "token", "context"),
    "Deploy to AWS": ("deploy", "local", "invoke"),
    "Maintain": ("doctor", "db", "dead-letters", "prune", "replay", "docs", "version"),
}
"""Every command of `noetl` in one group, in the order of the help; a test compares them with the commands there are."""


_AROUND = 5
"""Columns of a line that are neither name nor help."""


class GroupedCommands(TyperGroup):
    """The commands under the heading of their group; one that has none follows under `More`."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # type: ignore[override]
        """Write a section for each group."""
        left = list(self.list_commands(ctx))  # type: ignore[arg-type]
        width = max((len(name) for name in left), default=0)
        for title, names in [*GROUPS.items(), ("More", tuple(left))]:
            rows = [self._row(ctx, name, width, formatter.width) for name in names if name in left]
            left = [name for name in left if name not in names]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)

    def _row(self, ctx: click.Context, name: str, width: int, line: int) -> tuple[str, str]:
        command = self.get_command(ctx, name)  # type: ignore[arg-type]
        limit = max(line - width - _AROUND, 20)
        return name.ljust(width), "" if command is None else command.get_short_help_str(limit)
