"""Options that many commands share."""

from __future__ import annotations

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="One JSON object per line, for machines.")]
Home = Annotated[
    str | None,
    typer.Option("--home", help="Folder of engine data, instead of NOETL_HOME or ~/.noetl.", metavar="DIR"),
]
