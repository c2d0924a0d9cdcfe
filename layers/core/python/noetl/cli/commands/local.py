"""``noetl local`` and ``noetl invoke``: the deployed system on this machine."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from noetl.cli import errors
from noetl.cli.options import Home, Json
from noetl.cli.render.output import note, note_log, out, out_json, out_line, pretty
from noetl.cli.render.progress import Progress
from noetl.domain.errors import InfrastructureError

local_app = typer.Typer(
    help="Deploy to an emulator of AWS on this machine.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Endpoint = Annotated[
    str | None,
    typer.Option(metavar="URL", help="An emulator or LocalStack that runs already; none is started."),
]


@local_app.command()
def up(
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Port of the emulator (4566, or that of the last time)."),
    ] = None,
    postgres_port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port of Postgres (any free one).")
    ] = None,
    endpoint: Endpoint = None,
    project: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The checkout to deploy (the one you are in).")
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", "-c", metavar="NAME=VALUE", help="Passed on to the CDK. Repeatable."),
    ] = None,
    no_deploy: Annotated[
        bool, typer.Option("--no-deploy", help="Only start what was deployed before; takes two seconds.")
    ] = False,
    functions_site: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A site folder of every Python function: modules to import, .pth files that are executed.",
        ),
    ] = None,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Start the emulator and Postgres, and deploy every stack.

    It waits until the API is ready. The second time it deploys what has changed.

    \b
      noetl local up
      noetl local up --port 4600
      noetl local up --endpoint http://localhost:4566     # LocalStack, started by you

    Needs Node 22 or newer with npm, and the package registries the first time; no Docker, no AWS account.
    """
    from noetl.local.layout import layout
    from noetl.local.layout import project as find_project
    from noetl.local.stack import Options, ignored
    from noetl.local.stack import up as bring_up

    place = layout(home)
    options = Options(
        project=find_project(project),
        port=port,
        postgres_port=postgres_port,
        endpoint=endpoint,
        context=tuple(context or ()),
        deploy=not no_deploy,
        functions_site=None if functions_site is None else functions_site.resolve(),
    )
    progress = Progress(as_json)
    state = bring_up(place, options, progress)
    pretended = ignored(place)
    if as_json:
        out_json(
            {
                "event": "up",
                "endpoint": state.endpoint,
                "api": state.api,
                "ui": state.ui,
                "outputs": state.outputs,
            }
        )
        raise typer.Exit(errors.DONE)
    if pretended:
        shown = ", ".join(f"{name} ×{count}" for name, count in pretended.items())
        note(f"accepted by the emulator, but without effect: {shown}")
    _print(state.endpoint, state.api, state.ui, state.outputs)
    if state.api is not None:
        out("next:")
        out(f"  curl {shlex.quote(state.api + '/health')}")  # LocalStack wants the stage $default in it
        out("  noetl local logs -f        noetl local status        noetl local down")
    out(f"up in {progress.spent:.0f} s")
    raise typer.Exit(errors.DONE)


@local_app.command()
def status(as_json: Json = False, home: Home = None) -> None:
    """What runs, at which ports, and what is deployed.

    Exit code 0 when all of it is up, else 3.
    """
    from noetl.local.layout import layout
    from noetl.local.stack import status as look

    found = look(layout(home))
    if as_json:
        out_json(found)
    elif found["deployed_at"] is None:
        out("down: nothing is deployed here (noetl local up)")
    else:
        if found["up"]:
            _print(found["endpoint"], found["api"], found["ui"], found["outputs"])
        for name in ("emulator", "postgres"):
            part = found[name] or {}
            place = f", port {part['port']}, process {part['pid']}" if part.get("pid") else ""
            out(f"{name:<12} {'runs' if part.get('runs') else 'does not run'}{place}")
        out(f"{'api':<12} {'ready' if found['ready'] else 'not ready'}, deployed {found['deployed_at']}")
        out(f"{'data':<12} {found['home']}")
    raise typer.Exit(errors.DONE if found["up"] else errors.ENVIRONMENT)


@local_app.command()
def logs(
    function: Annotated[
        str | None,
        typer.Argument(
            metavar="[FUNCTION]", help="api, engine, …; `emulator` or `deploy`; none: all functions."
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines as they arrive.")
    ] = False,
    minutes: Annotated[float, typer.Option(min=0, help="How far back.")] = 60,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """What the deployed functions have printed."""
    from noetl.local import aws
    from noetl.local.layout import layout

    place = layout(home)
    files = {"emulator": place.emulator_log, "deploy": place.deploy_log}
    if function in files:
        _print_file(files[function], follow)
        raise typer.Exit(errors.DONE)
    state = _running(home)
    deployed = aws.functions(aws.client("lambda", state.endpoint))
    prefix = f"noetl-{state.environment}-"
    names = [aws.resolve(function, deployed, state.environment)] if function else sorted(deployed)
    groups = {
        name.removeprefix(prefix): deployed[name] for name in names if function or name.startswith(prefix)
    }
    since = time.time() - minutes * 60
    for entry in aws.log_lines(aws.client("logs", state.endpoint), groups, since, follow):
        if as_json:
            out_json(entry)
        else:
            moment = time.strftime("%H:%M:%S", time.localtime(entry["time"]))
            out_line(f"{moment} {entry['function']}  {entry['line']}")
    raise typer.Exit(errors.DONE)


@local_app.command()
def down(
    purge: Annotated[
        bool, typer.Option("--purge", help="Remove executions, objects and everything else of it, too.")
    ] = False,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Stop what `up` has started, and nothing else.

    Data and deployed stacks are kept for the next `up`.
    """
    from noetl.local.layout import layout
    from noetl.local.stack import down as take_down

    stopped = take_down(layout(home), purge=purge, progress=Progress(as_json))
    if as_json:
        out_json({"event": "down", "stopped": stopped, "purged": purge})
    else:
        out(f"stopped: {', '.join(stopped)}" if stopped else "nothing of it was running")
    raise typer.Exit(errors.DONE)


def invoke(
    function: Annotated[str, typer.Argument(metavar="FUNCTION", help="api, engine, scheduler, …")],
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="The event as a JSON or YAML file (see events/); - for stdin."),
    ],
    endpoint: Annotated[
        str | None, typer.Option(metavar="URL", help="An emulator; by default that of `noetl local up`.")
    ] = None,
    env: Annotated[
        str | None, typer.Option(metavar="NAME", help="A deployment on AWS, with your own AWS credentials.")
    ] = None,
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Call a deployed function with an event and print its answer.

    \b
      noetl invoke api events/apigw/health.json

    Exit code 1 when the function fails; its error is printed as type and message.
    """
    from noetl.cli.actions.payload import read_payload
    from noetl.local import aws

    event = read_payload(file, ())
    if env is None and endpoint is None:
        state = _running(home)
        endpoint, environment = state.endpoint, state.environment
    else:
        environment = env or "local"
    lambdas = aws.client("lambda", endpoint)
    answer, error = aws.invoke(lambdas, aws.resolve(function, aws.functions(lambdas), environment), event)
    if as_json:
        out_json({"answer": answer, "error": error})
    elif error is not None:
        note_log(f"error: {error['type']}: {error['message']}")
    else:
        out(pretty(answer))
    raise typer.Exit(errors.FAILED if error else errors.DONE)


# --- what they share ----------------------------------------------------------------------------


def _running(home: str | None) -> Any:
    from noetl.local import emulator
    from noetl.local.layout import layout
    from noetl.local.state import load

    state = load(layout(home))
    if state is None or not emulator.answers(state.endpoint):
        raise InfrastructureError(
            "the local stack is not up", code="local_down", hint="noetl local up", retryable=False
        )
    return state


def _print(endpoint: str, api: str | None, ui: str | None, outputs: dict[str, dict[str, str]]) -> None:
    out(f"{'emulator':<12} {endpoint}")
    if api is not None:
        out(f"{'API':<12} {api}")
    if ui is not None:
        out(f"{'web UI':<12} {ui}")
    for stack, values in sorted(outputs.items()):
        for name, value in sorted(values.items()):
            if not name.startswith("ExportsOutput"):
                out(f"  {stack}.{name} = {value}")


def _print_file(path: Path, follow: bool) -> None:
    try:
        with path.open(errors="replace") as lines:
            while True:
                for line in lines:
                    out(line.rstrip("\n"))
                if not follow:
                    return
                time.sleep(0.3)
    except FileNotFoundError:
        raise InfrastructureError(
            f"there is no {path.name} yet", code="local_down", hint="noetl local up", retryable=False
        ) from None
