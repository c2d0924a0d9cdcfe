"""The commands, their options and their help.

What they do is in the modules beside this one, imported when called.
"""

from __future__ import annotations

import os
from typing import Annotated

import typer

from noetl.cli import errors
from noetl.cli.catalog.commands import catalog_app
from noetl.cli.commands.context import context_app
from noetl.cli.commands.control import callback, cancel, exec_, inject, patch_app, pause, redrive, unpause
from noetl.cli.commands.credential import credential_app
from noetl.cli.commands.dead_letters import dead_letters_app
from noetl.cli.commands.deploy import deploy
from noetl.cli.commands.init import init
from noetl.cli.commands.inspect import events, items, list_, logs, result, status
from noetl.cli.commands.limit import limit_app
from noetl.cli.commands.local import invoke, local_app
from noetl.cli.commands.prune import prune
from noetl.cli.commands.schedule import schedule_app
from noetl.cli.commands.serve import serve, token_app
from noetl.cli.commands.server import server_app
from noetl.cli.commands.test import test
from noetl.cli.commands.trigger import trigger_app
from noetl.cli.commands.ui import ui
from noetl.cli.commands.vars import vars_app
from noetl.cli.commands.worker import worker_app
from noetl.cli.help_groups import GroupedCommands
from noetl.cli.options import (
    Context,
    Home,
    Id,
    Json,
    Key,
    Labels,
    NoCache,
    Payload,
    Priority,
    Quiet,
    Remote,
    Set,
    Strict,
    Target,
    TaskFolders,
    end,
    where,
)
from noetl.cli.render.output import UTC_SWITCH
from noetl.domain.durations import parse_duration

_HELP = """Run durable playbooks: written in YAML, kept in Postgres, resumed after any crash.

\b
  noetl init hello                        a playbook to begin with
  noetl run hello.yaml --set name=Ada     run it
  noetl status latest                     see its steps
  noetl resume                            continue after a crash

Exit codes: 0 done (or waiting for approval), 1 the execution failed or was cancelled, 2 wrong usage or an invalid
playbook, 3 the environment (see `noetl doctor`), 130 interrupted: `noetl resume` continues it.
"""

app = typer.Typer(
    name="noetl",
    cls=GroupedCommands,
    help=_HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
database_app = typer.Typer(help="Inspect and migrate the database of the engine.", no_args_is_help=True)
app.add_typer(catalog_app, name="catalog")
app.add_typer(context_app, name="context")
app.add_typer(patch_app, name="ctx")
app.add_typer(credential_app, name="credential")
app.add_typer(database_app, name="db")
app.add_typer(dead_letters_app, name="dead-letters")
app.add_typer(limit_app, name="limit")
app.add_typer(local_app, name="local")
app.add_typer(schedule_app, name="schedule")
app.add_typer(server_app, name="server")
app.add_typer(token_app, name="token")
app.add_typer(trigger_app, name="trigger")
app.add_typer(vars_app, name="vars")
app.add_typer(worker_app, name="worker")
app.command()(init)
app.command()(deploy)
app.command()(invoke)
app.command()(test)
app.command()(serve)
app.command()(ui)
app.command("exec")(exec_)
app.command()(callback)
app.command()(cancel)
app.command()(inject)
app.command()(pause)
app.command()(unpause)
app.command()(redrive)
app.command()(prune)
app.command("list")(list_)
app.command()(status)
app.command()(items)
app.command()(events)
app.command()(logs)
app.command()(result)

Timeout = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Stop waiting after this long (30, 90s, 5m, 2h); the execution can be resumed.",
    ),
]


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    seconds = parse_duration(text)
    if not seconds:
        raise typer.BadParameter(
            f"{text!r} is not a duration such as 30, 90s, 5m or 1h30m", param_hint="--timeout"
        )
    return seconds


def _version(shown: bool) -> None:
    if shown:
        version()


Version = Annotated[
    bool,
    typer.Option("--version", "-V", is_eager=True, callback=_version, help="Show the version, and exit."),
]


@app.callback()
def _globals(
    home: Home = None,
    shown: Version = False,
    utc: Annotated[bool, typer.Option("--utc", help="Show times in UTC, as NOETL_UTC=1 does.")] = False,
) -> None:
    if home:
        os.environ["NOETL_HOME"] = home
    if utc:
        os.environ[UTC_SWITCH] = "1"


@app.command()
def run(
    target: Target,
    sets: Set = None,
    payload: Payload = None,
    as_json: Json = False,
    timeout: Timeout = None,
    quiet: Quiet = False,
    priority: Priority = None,
    key: Key = "",
    labels: Labels = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check playbook and payload, show the plan, start nothing.")
    ] = False,
    strict: Strict = False,
    no_cache: NoCache = False,
    folders: TaskFolders = None,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Start a playbook and follow it to its end.

    \b
      noetl run weather.yaml --set city=Seattle --set days=3
      noetl run etl.yaml --payload request.json --json | jq .event_type
      echo '{"city": "Paris"}' | noetl run weather.yaml -p -
      noetl run weather.yaml --dry-run
      noetl run build.yaml --task-folder .

    With --json every event is a line, and the last line has execution_id, status, result, error and duration_ms.
    An execution that waits for an approval ends this command with code 0 and shows how to approve. With --remote (or --context NAME)
    the server of a context runs it: noetl context --help.
    """
    from noetl.cli.actions import execute
    from noetl.cli.actions.run_request import RunRequest

    request = RunRequest(target, sets or [], payload, priority, key, strict, labels or [], dry_run, no_cache)
    at = where(home, remote, context, folders)
    end(execute.run(request, as_json=as_json, quiet=quiet, timeout=_seconds(timeout), at=at))


@app.command()
def resume(
    ids: Annotated[
        list[str] | None, typer.Argument(metavar="[ID]...", help="Executions, or `latest`; none: all.")
    ] = None,
    as_json: Json = False,
    timeout: Timeout = None,
    quiet: Quiet = False,
    folders: TaskFolders = None,
    home: Home = None,
) -> None:
    """Continue executions that a stopped process left unfinished."""
    from noetl.cli.actions import execute

    at = where(home, False, None, folders)
    end(execute.resume(ids or [], as_json=as_json, quiet=quiet, timeout=_seconds(timeout), at=at))


@app.command()
def replay(
    execution: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="An execution id, or `latest`.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every execution there is.")] = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Rebuild state from history; compare it with what is stored.

    The exit code is 1 when they differ.
    """
    from noetl.cli.actions import inspect

    end(inspect.replay(execution, everything=everything, as_json=as_json, home=home))


@app.command()
def validate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Playbooks, folders of them, or patterns such as '**/*.yaml'."
        ),
    ],
    strict: Annotated[
        bool, typer.Option("--strict", help="Warnings, older spellings and unused names count as errors.")
    ] = False,
    online: Annotated[
        bool,
        typer.Option(
            "--online",
            help="Also check that the credentials and playbooks they name exist (--remote: there).",
        ),
    ] = False,
    notes: Annotated[
        bool,
        typer.Option("--notes", help="Also show notes: why each execution starts a process for Python code."),
    ] = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Check playbooks for problems.

    Each is shown with its line, its column and what to write instead.

    \b
      noetl validate playbooks/ --strict
      noetl validate etl.yaml --online --context prod
    """
    from noetl.cli.commands import playbooks

    # A context of the environment alone does not ask for its server: most checks need none.
    online = online or remote
    at = where(home, remote, context) if online else None
    end(playbooks.validate(files, strict=strict, as_json=as_json, online=at, notes=notes))


@app.command()
def lock(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Playbooks, or folders of them.")],
    platform: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TAG", help="Lock for this platform as well, such as manylinux2014_x86_64; repeatable."
        ),
    ] = None,
    wheels: Annotated[
        str | None,
        typer.Option(
            metavar="DIR", envvar="NOETL_WHEELS", help="Take wheels of this folder, and ask no index."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Pin the libraries that playbooks require, with their hashes.

    \b
      noetl lock report.yaml       # writes report.lock

    The lock is shipped with the playbook; tasks of Python import from what it names.
    """
    from noetl.cli.commands import lock as locking

    end(locking.lock(files, platform or (), wheels or "", as_json=as_json))


@app.command()
def fmt(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...|-", help="Playbooks, or folders of them; - for stdin.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; 1 when a file would change.")
    ] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Write nothing; show what would change, and 1 if anything would.")
    ] = False,
    canonical: Annotated[
        bool,
        typer.Option("--canonical", help="Older spellings and the event form become the canonical form."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Format playbooks; what they do stays the same.

    Comments stay where they belong.

    \b
      noetl fmt playbooks/
      noetl fmt --check .          # in CI
      noetl fmt --canonical old.yaml --diff

    A step that the canonical form cannot say with the same history stays in the event form, and is named with its reason.
    """
    from noetl.cli.commands.rewriting import fmt as formatter

    options = formatter.FormatOptions(check=check, diff=diff, canonical=canonical, as_json=as_json)
    end(formatter.fmt(files, options))


@app.command()
def migrate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...|-", help="Playbooks, or folders of them; - for stdin.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; 1 when a file would be rewritten.")
    ] = False,
    write: Annotated[bool, typer.Option("--write", help="Replace the files that run afterwards.")] = False,
    diff: Annotated[
        bool, typer.Option("--diff", help="Show a unified diff instead of one change after the other.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Rewrite playbooks of older dialects so that they run today.

    Each change is explained with its rule and its line.

    \b
      noetl migrate old.yaml               # explain what would change
      noetl migrate --diff playbooks/
      noetl migrate --write playbooks/
      noetl migrate --check .              # in CI

    Comments and the order of keys stay. A file that would not run afterwards is left as it is, with the lines that no rule rewrites, and
    the exit code is 2. A playbook that compiles already keeps its program; any other ends in the canonical form.
    """
    from noetl.cli.commands.rewriting import migrate as migrating

    options = migrating.MigrateOptions(check=check, write=write, diff=diff, as_json=as_json)
    end(migrating.migrate(files, options))


@app.command()
def analyze(
    execution: Id = "latest",
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Explain why an execution failed or is stuck.

    The output names what failed, what has no worker, and what to try next.
    """
    from noetl.cli.commands import analyze

    end(analyze.show(execution, as_json=as_json, at=where(home, remote, context)))


@app.command()
def cost(
    execution: Id = "latest",
    family: Annotated[bool, typer.Option("--family", help="Add up its sub-executions, too.")] = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show what an execution cost, by step.

    It adds up calls of tools, the time that they took, and ctx.cost. Retries, pages and compensations are calls. Sub-executions have
    costs of their own, which --family adds.
    """
    from noetl.cli.history import cost

    end(cost.show(execution, family=family, as_json=as_json, at=where(home, remote, context)))


@app.command()
def compare(
    a: Annotated[str, typer.Argument(metavar="A", help="An execution id, or `latest`.")],
    b: Annotated[str, typer.Argument(metavar="B", help="Another execution id.")],
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Show where two executions differ.

    It compares playbooks, inputs, step runs, context and results.
    """
    from noetl.cli.history import compare

    end(compare.show(a, b, as_json=as_json, at=where(home, remote, context)))


@app.command()
def sql(
    query: Annotated[
        str, typer.Argument(metavar="QUERY|-", help="One statement that reads; - reads it from stdin.")
    ],
    as_json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print rows as CSV.")] = False,
    limit: Annotated[int, typer.Option(help="Most rows, up to 10,000.", min=1)] = 1000,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Query the history of executions in SQL, read only.

    The views: executions, steps, facts, items, values, playbooks.

    \b
      noetl sql "SELECT path, status, count(*) FROM executions GROUP BY 1, 2"
    """
    from noetl.cli.history import sql

    end(sql.show(query, as_json=as_json, as_csv=csv, limit=limit, at=where(home, remote, context)))


@app.command()
def register(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Playbooks, or folders of them.")],
    migrate: Annotated[
        bool, typer.Option("--migrate", help="Rewrite older dialects on the way; files stay as they are.")
    ] = False,
    as_json: Json = False,
    remote: Remote = False,
    context: Context = None,
    home: Home = None,
) -> None:
    """Register playbooks and their schedules in the catalog.

    Other playbooks can then call them, and `noetl run PATH` runs them.
    """
    from noetl.cli.commands import register as catalog

    end(catalog.register(files, as_json=as_json, at=where(home, remote, context), migrate=migrate))


@app.command()
def graph(
    file: Annotated[str, typer.Argument(metavar="FILE")],
    form: Annotated[str, typer.Option("--format", "-f", help="mermaid, dot or json.")] = "mermaid",
) -> None:
    """Print a playbook as a flowchart: Mermaid, Graphviz or JSON."""
    from noetl.cli.commands import playbooks

    end(playbooks.graph(file, form))


@app.command()
def schema(
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write it there instead of stdout.")
    ] = None,
    of_tests: Annotated[bool, typer.Option("--test", help="Of test files (`noetl test`) instead.")] = False,
) -> None:
    """Print the JSON Schema of playbooks, for editors."""
    from noetl.cli.commands import playbooks

    end(playbooks.schema(output, of_tests=of_tests))


@app.command()
def doctor(as_json: Json = False, home: Home = None) -> None:
    """Check this machine: what is missing, and how to fix it."""
    from noetl.cli.commands import doctor as checks

    end(checks.doctor(as_json=as_json, home=home))


@database_app.command("migrate")
def database_migrate(as_json: Json = False, home: Home = None) -> None:
    """Bring the database to the newest schema; safe to repeat."""
    from noetl.cli.commands import database

    end(database.migrate(as_json=as_json, home=home))


@database_app.command("shell")
def database_shell(
    command: Annotated[
        str | None, typer.Option("--command", "-c", metavar="SQL", help="Run this, and nothing else.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Let statements change rows.")] = False,
    scratch: Annotated[
        bool, typer.Option("--scratch", help="The database that `postgres` tasks without `auth` use.")
    ] = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Run SQL on the engine's database, read only without --write.

    On a terminal this is psql, where there is one.

    \b
      noetl db shell
      noetl db shell -c "SELECT status, count(*) FROM noetl.execution GROUP BY status"
      noetl db shell --scratch -c "SELECT count(*) FROM orders"
    """
    from noetl.cli.actions import database_shell

    end(database_shell.shell(command, write=write, scratch=scratch, as_json=as_json, home=home))


@database_app.command("status")
def database_status(as_json: Json = False, home: Home = None) -> None:
    """Show where the database is, and whether its schema is the newest."""
    from noetl.cli.commands import database

    end(database.status(as_json=as_json, home=home))


@app.command()
def docs(
    page: Annotated[
        str | None, typer.Argument(metavar="[PAGE]", help="Such as limits, dsl/loops or docs/results.md.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a page of the documentation, or the names of all."""
    from noetl.cli.actions import docs_pages

    end(docs_pages.show(page, as_json=as_json))


@app.command()
def version() -> None:
    """Show the version of noetl, and of what it runs on."""
    import platform
    from importlib import metadata

    from noetl.cli.render.output import out

    out(f"noetl {metadata.version('noetl-serverless')} (Python {platform.python_version()})")
    end(errors.DONE)
