"""``noetl limit``: its commands, their options and their help.

What they do is in ``limits``, imported when called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, end, where

limit_app = typer.Typer(
    help="Show and set limits of concurrency and rate, by key.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Key = Annotated[
    str,
    typer.Argument(
        metavar="KEY", help="As playbooks name it; keys of whole executions begin with execution:"
    ),
]


@limit_app.command("list")
def list_(
    key: Annotated[
        str, typer.Argument(metavar="[KEY]", help="Only this key, with every holder and waiter.")
    ] = "",
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")] = 100,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Every key with its limit, how many hold it, and how many wait."""
    from noetl.cli.actions import limits

    at = where(home, remote, context)
    end(limits.show(key, as_json=as_json, at=at) if key else limits.show_list(limit, as_json=as_json, at=at))


@limit_app.command("set")
def set_(
    key: Key,
    concurrent: Annotated[
        int | None, typer.Option("--concurrent", "-c", help="How many at once; 0: nothing new begins.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", "-r", help="How many begin every --per seconds.")
    ] = None,
    per: Annotated[float, typer.Option("--per", help="Seconds the rate is counted over.")] = 1.0,
    burst: Annotated[int, typer.Option("--burst", help="How many may begin at the same moment.")] = 1,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Set the limit of a key from now on; it overrides what playbooks declare.

    \b
      noetl limit set warehouse --concurrent 5
      noetl limit set api.example.com --rate 10 --burst 3
      noetl limit set execution:etl/daily --concurrent 1
    """
    from noetl.cli.actions import limits

    at = where(home, remote, context)
    end(limits.set_(key, concurrent, rate, per, burst, as_json=as_json, at=at))


@limit_app.command()
def remove(
    key: Key,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Remove the limit of a key; what playbooks declare applies again."""
    from noetl.cli.actions import limits

    end(limits.remove(key, as_json=as_json, at=where(home, remote, context)))
