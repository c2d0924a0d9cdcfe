"""``noetl catalog``: its commands, their options and their help.

What they do is in ``show``, imported when called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, end, where

catalog_app = typer.Typer(
    help="Show what a playbook calls, and what calls and starts it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@catalog_app.callback()
def catalog() -> None:
    """Keep the name of the command beside the group: one command alone would take its place."""


@catalog_app.command()
def show(
    playbook: Annotated[str, typer.Argument(metavar="PATH", help="A registered playbook (path@version).")],
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show what a playbook calls, what calls it, and what starts it by itself.

    \b
      noetl catalog show sales/orders
    """
    from noetl.cli.catalog import show

    end(show.show(playbook, as_json=as_json, at=where(home, remote, context)))
