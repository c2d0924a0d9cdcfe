"""``noetl init``: a playbook to begin with."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from noetl.cli import errors
from noetl.cli.options import Json, end
from noetl.cli.render.output import out, out_json, table
from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.shortages import shortage
from noetl.dsl.diagnostics import did_you_mean

TEMPLATES = {
    "hello": "a loop of Python tasks, and a summary of it",
    "etl": "extract rows, load them into Postgres once, report",
    "api": "ask an HTTP API about many things, with retries",
    "fan_out": "many items at once, some of which fail",
    "saga": "book, book, pay; undo the bookings when a step fails",
    "agent": "a model that calls tools, and is asked a number of times at most",
    "approval": "wait until a person approves or rejects, then take that branch",
    "nightly": "a schedule, and a check that fails the run",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_PLACEHOLDER = "NAME"


def init(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Name of the playbook; default: that of the template."),
    ] = None,
    template: Annotated[
        str, typer.Option("--template", "-t", metavar="TEMPLATE", help=f"One of {', '.join(TEMPLATES)}.")
    ] = "hello",
    list_templates: Annotated[
        bool, typer.Option("--list", help="Show the templates, write nothing.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    as_json: Json = False,
) -> None:
    """Write a first playbook, and its test, into this folder.

    \b
      noetl init                              hello.yaml
      noetl init orders --template etl        orders.yaml
      noetl init --list
    """
    if list_templates:
        if as_json:
            out_json([{"template": one, "about": about} for one, about in TEMPLATES.items()])
        else:
            out(table(("TEMPLATE", "ABOUT"), list(TEMPLATES.items())))
        end(errors.DONE)
    if template not in TEMPLATES:
        raise InvalidInputError(
            f"{template[:60]!r} is not a template",
            code="unknown_template",
            hint=did_you_mean(template, TEMPLATES, f"one of {', '.join(TEMPLATES)}"),
        )
    made = write_template(template, name or template, Path.cwd(), force=force)
    if as_json:
        out_json({"template": template, "files": [path.name for path in made]})
    else:
        playbook = made[0].name
        out(f"wrote {' and '.join(path.name for path in made)}")
        out(f"next: noetl run {playbook}{f', noetl test {playbook}' if len(made) > 1 else ''}")
    end(errors.DONE)


def write_template(template: str, name: str, folder: Path, *, force: bool = False) -> list[Path]:
    """Write the files of a template as ``name`` and return them, the playbook first.

    Raises InvalidInputError(code="invalid_name" or "file_unwritable") and ConflictError(code="file_exists").
    """
    if _NAME.fullmatch(name) is None:
        raise InvalidInputError(
            f"{name[:60]!r} cannot name a playbook",
            code="invalid_name",
            hint="letters, digits, _ and -, such as daily_orders",
        )
    texts = {
        folder / f"{name}{suffix}": text.replace(_PLACEHOLDER, name)
        for suffix in (".yaml", ".test.yaml")
        if (text := _text(template, suffix)) is not None
    }
    there = [path.name for path in texts if path.exists() or path.is_symlink()]
    if there and not force:
        raise ConflictError(
            f"{' and '.join(there)} {'is' if len(there) == 1 else 'are'} there already",
            code="file_exists",
            hint="choose another name, or replace it with --force",
        )
    for path, text in texts.items():
        try:
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            lacking = shortage(error)
            if path.name not in there:
                path.unlink(missing_ok=True)
            raise InvalidInputError(
                f"{path.name} cannot be written: {lacking.reason if lacking else error.strerror or error}",
                code="file_unwritable",
                hint=lacking.remedy if lacking else None,
            ) from error
    return list(texts)


def _text(template: str, suffix: str) -> str | None:
    found = files("noetl.cli").joinpath("templates", f"{template}{suffix}")
    return found.read_text("utf-8") if found.is_file() else None
