"""``noetl vars``: variables of executions. Options, help, and what the commands do."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from noetl.cli import errors
from noetl.cli.options import Context, Home, Id, Json, Reason, Remote, Set, end, where

vars_app = typer.Typer(
    help="Read, set and remove variables of executions.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A variable.")]


@vars_app.command("list")
def list_(
    execution: Id = "latest",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Every variable of an execution. Looking at them here is not counted."""
    from noetl.cli.client.connect import open_place
    from noetl.cli.client.protocol import resolve_id
    from noetl.cli.render.output import note, one_line, out, out_json, table
    from noetl.domain import codec

    with open_place(where(home, remote, context)) as place:
        execution_id = resolve_id(place, execution)
        found = place.variables(execution_id)
    if as_json:
        for name, one in found.items():
            out_json({"name": name, **msgspec.to_builtins(one)})
    elif not found:
        note(f"execution {execution_id} has no variables")
    else:
        rows = [
            (
                name,
                one.type,
                one.source_step or "-",
                str(one.access_count),
                one_line(codec.encode(one.value).decode("utf-8", "backslashreplace"), 80),
            )
            for name, one in found.items()
        ]
        out(table(("VARIABLE", "TYPE", "STEP", "READS", "VALUE"), rows))
    end(errors.DONE)


@vars_app.command()
def get(
    execution: Id,
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """The value of one variable, and nothing else. The read is counted."""
    from noetl.cli.client.connect import open_place
    from noetl.cli.client.protocol import resolve_id
    from noetl.cli.render.output import out, out_json, pretty

    with open_place(where(home, remote, context)) as place:
        found = place.variable(resolve_id(place, execution), name)
    if as_json:
        out_json({"name": name, **msgspec.to_builtins(found)})
    else:
        out(pretty(found.value))
    end(errors.DONE)


@vars_app.command("set")
def set_(
    execution: Id,
    sets: Set = None,
    reason: Reason = "",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Set variables of an execution that has not ended: an event, kept with who and why.

    \b
      noetl vars set latest --set total=3 --set 'cities=["Seattle", "Paris"]'

    They can be read at once; steps see them when the execution continues.
    """
    from noetl.cli.actions.payload import read_payload
    from noetl.cli.client.connect import open_place
    from noetl.cli.client.protocol import resolve_id
    from noetl.cli.render.output import out, out_json
    from noetl.domain.errors import InvalidInputError

    values = read_payload(None, sets or [])
    if not values:
        raise InvalidInputError("nothing to set", code="invalid_set", hint="add --set total=3")
    with open_place(where(home, remote, context)) as place:
        execution_id = resolve_id(place, execution)
        place.set_variables(execution_id, values, reason)
    if as_json:
        out_json({"execution_id": str(execution_id), "variables_set": len(values), "var_names": [*values]})
    else:
        out(f"execution {execution_id}: {', '.join(values)} set")
    end(errors.DONE)


@vars_app.command()
def delete(
    execution: Id,
    name: Name,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Remove a variable of an execution that has not ended."""
    from noetl.cli.client.connect import open_place
    from noetl.cli.client.protocol import resolve_id
    from noetl.cli.render.output import out, out_json

    with open_place(where(home, remote, context)) as place:
        execution_id = resolve_id(place, execution)
        place.delete_variable(execution_id, name)
    if as_json:
        out_json({"execution_id": str(execution_id), "name": name, "deleted": True})
    else:
        out(f"execution {execution_id}: {name} is removed")
    end(errors.DONE)
