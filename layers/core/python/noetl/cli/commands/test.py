"""The command ``noetl test``: its options and help.

What it does is in ``noetl.cli.actions.test``, imported when it is called.
"""

from __future__ import annotations

from typing import Annotated

import typer

from noetl.cli.options import Context, Home, Json, Remote, where


def test(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH", help="Test files, playbooks that have some, or folders; none: here."),
    ] = None,
    name: Annotated[str, typer.Option("-k", metavar="TEXT", help="Only cases with this in their name.")] = "",
    as_json: Json = False,
    junit: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the results as JUnit XML, too.")
    ] = None,
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Show which branches no case reached.")
    ] = False,
    coverage_min: Annotated[
        float | None,
        typer.Option(
            min=0, max=100, metavar="PERCENT", help="Fail when a playbook is covered less than this."
        ),
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", "-x", help="Stop at the first failure.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Path and calls of every case.")] = False,
    shuffle: Annotated[
        int,
        typer.Option(
            min=0, max=100_000, metavar="N", help="Run each case in N random orders of its tasks, too."
        ),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="The first of these orders.")] = 1,
    live: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="Let tasks of this kind reach outside. Repeatable."),
    ] = None,
    recorded: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="EXECUTION",
            help="Write a test of the playbook PATH from the history of an execution, and run it.",
        ),
    ] = None,
    home: Home = None,
    remote: Remote = False,
    context: Context = None,
) -> None:
    """Run tests of playbooks: mocked services and virtual time.

    \b
      noetl test                                # every *.test.yaml below here
      noetl test weather.yaml --coverage        # the tests of one playbook, and what they do not reach
      noetl test weather.yaml --from latest     # make weather.test.yaml from an execution, and run it
      noetl test -k retry --shuffle 50          # the same outcome in 50 orders, or the seed that shows a race

    Exit codes: 0 all passed, 1 one did not (or coverage is too low), 2 a test file or its playbook is invalid.
    """
    from noetl.cli.actions import test as testing

    options = testing.TestOptions(
        targets=paths or [],
        name=name,
        as_json=as_json,
        junit=junit,
        coverage=coverage,
        coverage_min=coverage_min,
        fail_fast=fail_fast,
        verbose=verbose,
        shuffle=shuffle,
        seed=seed,
        live=live or [],
    )
    if recorded is not None:
        from noetl.cli.history.record_test import record_test

        raise typer.Exit(record_test(options, recorded, where(home, remote, context)))
    raise typer.Exit(testing.test(options))
