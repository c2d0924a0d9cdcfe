"""The local stack as a whole: start it, show its status, stop it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from noetl.domain.errors import InfrastructureError
from noetl.local import database, deploy, emulator, tools
from noetl.local.layout import Layout
from noetl.local.state import Process, State, end, load, runs, save
from noetl.local.tools import Progress
from noetl.local.workspace import open_workspace

DEFAULT_PORT = 4566


@dataclass(frozen=True, slots=True)
class Options:
    """What to bring up.

    ``endpoint`` is an emulator that runs already (LocalStack); then none is started here. Without ``deploy`` only what was deployed
    before is started again. ``functions_site`` is a site folder of every Python function.
    """

    project: Path
    environment: str = "local"
    port: int | None = None
    postgres_port: int | None = None
    endpoint: str | None = None
    context: tuple[str, ...] = ()
    deploy: bool = True
    functions_site: Path | None = None


def up(layout: Layout, options: Options, progress: Progress) -> State:
    """Start what does not run, deploy the stacks, and return when the API is ready.

    Raises InfrastructureError.
    """
    deploy.check_library()
    tools.check_node()
    with _alone(layout):
        node_modules = tools.cdk(options.project, progress)
        planned = plan(layout, options)
        if options.deploy:
            state = _deployed(layout, options, planned, node_modules, progress)
        elif planned.api is None:
            raise InfrastructureError(
                "nothing is deployed that could be started",
                code="local_down",
                hint="leave --no-deploy away",
                retryable=False,
            )
        else:
            state = _start(layout, planned, node_modules, progress, options.functions_site)
        if state.emulator is not None and state.postgres_port:
            open_workspace(layout, state.endpoint, state.environment, state.postgres_port)
        if state.api is not None:
            progress("waiting for the API")
            deploy.wait_ready(state.api)
        return state


def _deployed(
    layout: Layout, options: Options, planned: State, node_modules: Path, progress: Progress
) -> State:
    """Synthesize while the processes start, then deploy.

    Returns the state with what the stacks say of themselves.
    """
    layout.deploy_log.unlink(missing_ok=True)
    progress("synthesizing the stacks")
    with ThreadPoolExecutor(1) as aside:
        synthesis = aside.submit(
            deploy.synth,
            layout,
            options.project,
            node_modules,
            planned.endpoint,
            options.environment,
            # Another emulator may know no CloudFront.
            options.context if options.endpoint is None else ("ui=off", *options.context),
        )
        state = _start(layout, planned, node_modules, progress, options.functions_site)
        deploy.bootstrap(layout, node_modules, state.endpoint)
        synthesis.result()
    progress("deploying the stacks")
    outputs = deploy.deploy(layout, node_modules, state.endpoint, progress)
    state = msgspec.structs.replace(
        state,
        outputs=outputs,
        api=deploy.api_url(outputs, state.endpoint, own_emulator=state.emulator is not None),
        ui=deploy.ui_url(outputs, state.endpoint),
        deployed_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    save(layout, state)
    return state


def plan(layout: Layout, options: Options) -> State:
    """Return the state to reach, with what already runs in it.

    Raises InfrastructureError when a port is taken or no server answers.
    """
    wanted = State(environment=options.environment, project=str(options.project), endpoint="")
    if options.endpoint is not None:
        if options.functions_site is not None:
            raise InfrastructureError(
                "--functions-site is for the emulator that is started here",
                code="endpoint_foreign",
                hint="leave --endpoint away, or put what functions need into a layer",
                retryable=False,
            )
        endpoint = options.endpoint.rstrip("/")
        if not emulator.answers(endpoint):
            raise InfrastructureError(
                f"no emulator answers at {endpoint}",
                code="endpoint_silent",
                hint="start it, or leave --endpoint away and one is started here",
                retryable=False,
            )
        return msgspec.structs.replace(wanted, endpoint=endpoint)
    before = load(layout)
    if before is not None and runs(before.emulator):
        return _joined(before, wanted, options)
    port = options.port or (before.port if before else 0) or DEFAULT_PORT
    if not emulator.port_is_free(port):
        raise InfrastructureError(
            f"port {port} of {emulator.HOST} is taken",
            code="port_taken",
            hint="choose another one with --port, or use the emulator that runs there with --endpoint URL",
            retryable=False,
        )
    known = before if before is not None and before.port == port else wanted
    return msgspec.structs.replace(
        known,
        environment=wanted.environment,
        project=wanted.project,
        endpoint=f"http://{emulator.HOST}:{port}",
        port=port,
        emulator=None,
        postgres_port=_postgres_port(before, options),
        postgres=before.postgres if before and runs(before.postgres) else None,
    )


def _joined(before: State, wanted: State, options: Options) -> State:
    if options.functions_site is not None:
        raise InfrastructureError(
            "the emulator runs already, and reads --functions-site when it starts",
            code="already_up",
            hint="noetl local down first, or leave --functions-site away",
            retryable=False,
        )
    if options.port not in (None, before.port):
        raise InfrastructureError(
            f"the local stack runs at port {before.port}, not {options.port}",
            code="already_up",
            hint="noetl local down first, or leave --port away",
            retryable=False,
        )
    return msgspec.structs.replace(
        before,
        environment=wanted.environment,
        project=wanted.project,
        postgres=before.postgres if runs(before.postgres) else None,
    )


def _postgres_port(before: State | None, options: Options) -> int:
    """Return the chosen port, else that of the last run, else any that is free.

    Deployed secrets name the port of the last run.
    """
    if options.postgres_port:
        return options.postgres_port
    usable = before and (runs(before.postgres) or emulator.port_is_free(before.postgres_port))
    return before.postgres_port if before and before.postgres_port and usable else emulator.free_port()


def _start(
    layout: Layout, planned: State, node_modules: Path, progress: Progress, site: Path | None
) -> State:
    """Start the processes of the plan that do not run yet.

    What was started is recorded at once.
    """
    if not planned.port:
        save(layout, planned)
        return planned
    state = planned
    if state.postgres is None:
        progress("starting Postgres")
        state = msgspec.structs.replace(state, postgres=database.start(layout, state.postgres_port))
        save(layout, state)
    if state.emulator is None:
        _forget_other_ports(layout, state, progress)
        progress("starting the emulator")
        spawned = emulator.spawn(layout, state.port, state.postgres_port, node_modules, progress, site)
        state = msgspec.structs.replace(state, emulator=spawned)
        save(layout, state)
        emulator.wait(spawned, state.endpoint, layout)
    return state


def _forget_other_ports(layout: Layout, state: State, progress: Progress) -> None:
    """Remove what the emulator has kept when the ports are others.

    It names its ports everywhere, so it has to start empty then.
    """
    marker = layout.objects / "ports.json"
    ports = json.dumps([state.port, state.postgres_port])
    if layout.objects.exists() and (not marker.exists() or marker.read_text() != ports):
        progress("the ports have changed: the emulator starts empty")
        shutil.rmtree(layout.objects)
    layout.objects.mkdir(parents=True, exist_ok=True, mode=0o700)
    marker.write_text(ports)


def down(layout: Layout, *, purge: bool, progress: Progress) -> list[str]:
    """Stop what ``up`` started, and nothing else; return the names of what was stopped.

    ``purge`` removes the data too.
    """
    stopped: list[str] = []
    with _alone(layout):
        state = load(layout)
        if state is not None:
            if runs(state.emulator):
                progress("stopping the emulator")
                end(state.emulator)
                stopped.append("emulator")
            if runs(state.postgres):
                progress("stopping Postgres")
                database.stop(layout)
                stopped.append("postgres")
            save(layout, msgspec.structs.replace(state, emulator=None, postgres=None))
        if purge:
            progress("removing the data")
            for entry in layout.root.iterdir():
                if entry != layout.lock:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
    return stopped


def status(layout: Layout) -> dict[str, Any]:
    """Return what runs.

    It has ``up`` (emulator answers, Postgres runs, API ready), each part, the deployed outputs, and what is only pretended.
    """
    state = load(layout)
    if state is None:
        return {"up": False, "deployed_at": None}
    answers = emulator.answers(state.endpoint)
    ready = bool(answers and state.api and emulator.status_of(state.api, "/ready", timeout=10.0) == 200)
    managed = state.port != 0
    postgres = runs(state.postgres)
    return {
        "up": answers and ready and (postgres or not managed),
        "environment": state.environment,
        "endpoint": state.endpoint,
        "api": state.api,
        "ready": ready,
        "emulator": _part(state.emulator, answers, state.port) if managed else {"runs": answers},
        "postgres": _part(state.postgres, postgres, state.postgres_port) if managed else None,
        "deployed_at": state.deployed_at,
        "ui": state.ui,
        "outputs": state.outputs,
        "ignored": ignored(layout),
        "home": str(layout.root),
    }


def ignored(layout: Layout) -> dict[str, int]:
    """Resource types that the emulator accepted and ignored, with how many of each."""
    try:
        lines = layout.ignored.read_text().splitlines()
    except FileNotFoundError:
        return {}
    resources = {(entry["type"], entry["stack"], entry["resource"]) for entry in map(json.loads, lines)}
    return dict(sorted(Counter(kind for kind, _, _ in resources).items()))


def _part(recorded: Process | None, runs_now: bool, port: int) -> dict[str, Any]:
    return {"runs": runs_now, "pid": recorded.pid if recorded and runs_now else None, "port": port}


@contextlib.contextmanager
def _alone(layout: Layout) -> Iterator[None]:
    """One ``up`` or ``down`` at a time."""
    layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
    handle = os.open(layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InfrastructureError(
                f"another `noetl local` command works on {layout.root}",
                code="local_busy",
                hint="wait until it has ended",
            ) from None
        yield
    finally:
        os.close(handle)
