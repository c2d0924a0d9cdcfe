"""The part of the command line that is asked for.

Typer reads the annotations of every command before it runs one, which for all commands takes a third of the time of a short one.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Sequence

import typer
from typer.main import get_command, get_command_name

from noetl.cli.option_parsers import read_plainly

FLAGS = frozenset({"--utc", "--version", "-V", "--help", "-h"})
"""Options of the program itself that take no value."""


def with_command(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return ``app`` with the command that ``words`` begin with.

    All of it when they name none, or ask for help.

    ``words``: what follows the program's name. Options of ``app`` itself take one value each, but for ``FLAGS``.
    """
    name = _first(words)
    commands = [one for one in app.registered_commands if name == (one.name or _name_of(one.callback))]
    groups = [one for one in app.registered_groups if one.name == name]
    if f"_{(app.info.name or '').upper()}_COMPLETE" in os.environ or not (commands or groups):
        return app
    part = copy.copy(app)
    part.registered_commands, part.registered_groups = commands, groups
    return part


def command_of(app: typer.Typer) -> Callable[[], object]:
    """Return the runner of the command line of ``app``.

    Plain values are read without Typer's validators.
    """
    command = get_command(app)
    read_plainly(command)
    return command


def _first(words: Sequence[str]) -> str | None:
    """The first word that is neither an option nor the value of one."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if "=" not in option and option not in FLAGS and rest:
            rest.pop(0)
    return rest[0] if rest else None


def _name_of(callback: object) -> str:
    return get_command_name(str(getattr(callback, "__name__", "")))
