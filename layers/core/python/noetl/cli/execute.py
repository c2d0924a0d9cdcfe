"""Commands that run executions: run, resume, cancel, and patching a context."""

from __future__ import annotations

import getpass
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noetl.cli import errors, wiring
from noetl.cli.payload import parse_set, read_payload
from noetl.cli.register import register_neighbours
from noetl.cli.text import duration, note, out, out_json, pretty, shortened
from noetl.cli.watch import JsonEvents, PlainLines, Silent, TaskLog, Watcher
from noetl.domain.errors import ConflictError, InvalidInputError, NoetlError, NotFoundError
from noetl.domain.outcomes import Patch
from noetl.domain.state import TERMINAL
from noetl.services import read_execution
from noetl.services.read_execution import ExecutionView

if TYPE_CHECKING:
    from noetl.ports.catalog import CatalogEntry

_SUFFIXES = (".yaml", ".yml")
_CANCEL_SECONDS = 30.0


def run(
    target: str,
    *,
    sets: Sequence[str],
    payload: str | None,
    as_json: bool,
    quiet: bool,
    timeout: float | None,
    home: str | None,
) -> int:
    """Start a playbook and follow it to its end."""
    try:
        return _run(target, read_payload(payload, sets), as_json, quiet, timeout, home)
    except NoetlError as error:
        if not as_json:
            raise
        status = "invalid" if errors.exit_code(error) == errors.USAGE else "error"
        out_json(_last_line(None, status, error=errors.as_json(error)))
        return errors.exit_code(error)


def _run(
    target: str, payload: dict[str, Any], as_json: bool, quiet: bool, timeout: float | None, home: str | None
) -> int:
    text = _playbook_text(target)
    source_name = str(Path(target).resolve()) if text is not None else ""
    if text is not None:
        _check_first(text, source_name, home, warn=not (as_json or quiet))
    log = TaskLog()
    with wiring.open_local(home, on_log=log.add) as runtime:
        if text is not None:
            register_neighbours(runtime, text, Path(source_name))
            entry = runtime.register(text, source_name=source_name)
        else:
            entry = _from_catalog(runtime, target)
        execution_id = runtime.start(entry, payload)
        if not (as_json or quiet):
            out(f"execution {execution_id}  {entry.path} version {entry.version}")
        return follow(runtime, [execution_id], as_json=as_json, quiet=quiet, timeout=timeout, log=log)


def _playbook_text(target: str) -> str | None:
    """The text of a playbook file; None when ``target`` is no file and may be a path in the catalog."""
    path = Path(target)
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        if path.suffix in _SUFFIXES:
            raise NotFoundError(
                f"there is no file {target}", code="file_not_found", hint=_nearby(path)
            ) from None
        return None
    except IsADirectoryError:
        found = ", ".join(sorted(p.name for p in path.iterdir() if p.suffix in _SUFFIXES)[:5])
        raise InvalidInputError(
            f"{target} is a folder",
            code="not_a_playbook",
            hint=f"name a playbook in it: {found}" if found else "name a playbook file",
        ) from None
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{target} is not UTF-8 text (byte {error.start})", code="not_a_playbook"
        ) from None
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{target} cannot be read: {error}", code="file_unreadable") from None


def _nearby(path: Path) -> str | None:
    from noetl.dsl.diagnostics import nearest

    try:
        names = [p.name for p in path.parent.iterdir() if p.suffix in _SUFFIXES]
    except OSError:
        return f"there is no folder {path.parent} either"
    found = nearest(path.name, names)
    return f"did you mean {path.parent / found}?" if found else None


def _check_first(text: str, source_name: str, home: str | None, *, warn: bool) -> None:
    """Refuse an invalid playbook before anything is started; tell warnings."""
    warnings = wiring.compile_playbook(text, source_name, home)
    if warn and warnings:
        note(errors.describe_diagnostics(warnings, source_name))


def _from_catalog(runtime: wiring.Reading, target: str) -> CatalogEntry:
    """``path`` (latest version) or ``path@version``."""
    path, _, version = target.rpartition("@")
    if not path or not version.isdigit():
        path, version = target, ""
    entry = runtime.catalog.get(path, int(version) if version else None)
    if entry is not None:
        return entry
    from noetl.dsl.diagnostics import did_you_mean

    known = [entry.path for entry in runtime.catalog.entries(limit=1000)]
    raise NotFoundError(
        f"there is neither a file nor a registered playbook {target}",
        code="playbook_not_found",
        hint=did_you_mean(path, known, "give the path of a YAML file"),
    )


# --- following ----------------------------------------------------------------------------------


def follow(
    runtime: wiring.Runtime,
    ids: Sequence[int],
    *,
    as_json: bool,
    quiet: bool,
    timeout: float | None = None,
    log: TaskLog | None = None,
) -> int:
    """Run executions until they end, park, or ``timeout`` seconds have passed; tell what came of them."""
    watcher = _watcher(runtime, ids, as_json, quiet, log or TaskLog())
    interrupted = False
    try:
        runtime.run_until(ids, on_tick=watcher.tick, timeout=timeout)
    except (KeyboardInterrupt, TimeoutError, errors.ReaderGoneError):
        interrupted = True
    finally:
        watcher.finish()
    codes = [_tell_end(runtime, execution_id, as_json, quiet, interrupted) for execution_id in ids]
    return max(codes, default=errors.DONE)


def _watcher(
    runtime: wiring.Reading, ids: Sequence[int], as_json: bool, quiet: bool, log: TaskLog
) -> Watcher:
    if as_json:
        return JsonEvents(runtime.store, ids)
    if quiet:
        return Silent()
    if sys.stdout.isatty():
        from noetl.cli.live import LiveView

        return LiveView(runtime.store, ids, log)
    return PlainLines(runtime.store, ids, log)


def _tell_end(
    runtime: wiring.Reading, execution_id: int, as_json: bool, quiet: bool, interrupted: bool
) -> int:
    view = read_execution.describe(runtime.store, runtime.programs, execution_id, now=time.time())
    value = (
        read_execution.result(runtime.store, runtime.results, execution_id)
        if view.status == "completed"
        else None
    )
    if as_json:
        error = view.error or ({"message": view.reason} if view.reason else None)
        out_json(
            _last_line(
                str(execution_id),
                view.status,
                result=value,
                error=error,
                duration_ms=view.summary.duration_ms,
            )
        )
    else:
        _tell(view, value, execution_id, quiet)
    if view.status in TERMINAL:
        return errors.DONE if view.status == "completed" else errors.FAILED
    if view.status == "waiting" and not interrupted:
        return errors.DONE
    if not as_json:
        note(f"stopped before the end; go on with: noetl resume {execution_id}")
    return errors.INTERRUPTED


def _last_line(
    execution_id: str | None,
    status: str,
    *,
    result: Any = None,
    error: Any = None,
    duration_ms: int | None = None,
) -> dict[str, Any]:
    return {
        "execution_id": execution_id,
        "status": status,
        "result": result,
        "error": error,
        "duration_ms": duration_ms,
    }


def _tell(view: ExecutionView, value: Any, execution_id: int, quiet: bool) -> None:
    spent = duration(view.summary.duration_ms)
    if view.status == "completed":
        if not quiet:
            out(f"completed in {spent}")
        text = pretty(value)
        out(text if quiet else shortened(text, f"all of it: noetl result {execution_id}"))
    elif view.status == "failed" and view.error:
        step = view.error.get("step")
        note(f"failed in {spent}{f' at step {step}' if step else ''}")
        note(errors.describe_failure(view.error))
        note(f"  more: noetl status {execution_id}")
    elif view.status == "cancelled":
        note(f"cancelled{f': {view.reason}' if view.reason else ''}")
    elif view.status == "waiting":
        tell_parked(view, execution_id)


def tell_parked(view: ExecutionView, execution_id: int) -> None:
    """How the gates that an execution waits at can be opened."""
    out(f"waiting: execution {execution_id} goes on when its context allows it")
    for parked in view.parked:
        out(f"  {parked.step} is admitted when: {parked.guard or 'its admission rules say so'}")
        sets = " ".join(f"--set {key}=true" for key in parked.keys) or "--set NAME=VALUE"
        out(f"  to approve: noetl ctx patch {execution_id} {sets}")


# --- other commands that change an execution ------------------------------------------------------


def resume(
    names: Sequence[str], *, as_json: bool, quiet: bool, timeout: float | None, home: str | None
) -> int:
    """Go on with what earlier processes left unfinished: the named executions, or all."""
    log = TaskLog()
    with wiring.open_local(home, on_log=log.add) as runtime:
        wanted = [resolve_id(runtime, name) for name in names]
        for execution_id in wanted:
            read_execution.find(runtime.store, execution_id)
        live = runtime.recover()
        ids = wanted or live
        if not ids:
            if not as_json:
                out("nothing to resume")
            return errors.DONE
        return follow(runtime, ids, as_json=as_json, quiet=quiet, timeout=timeout, log=log)


def cancel(name: str, *, reason: str, cascade: bool, as_json: bool, home: str | None) -> int:
    """Cancel an execution, and its children with it."""
    with wiring.open_local(home) as runtime:
        execution_id = resolve_id(runtime, name)
        _refuse_ended(runtime, execution_id, "cancelled")
        runtime.cancel(execution_id, reason, principal(), cascade)
        _let_children_end(runtime, execution_id)
        status = read_execution.find(runtime.store, execution_id).status
    if as_json:
        out_json({"execution_id": str(execution_id), "status": status})
    else:
        out(f"execution {execution_id} is {status}")
    return errors.DONE


def patch(
    name: str,
    *,
    sets: Sequence[str],
    reason: str,
    as_json: bool,
    quiet: bool,
    home: str | None,
) -> int:
    """Change an execution's context, and go on with it when nobody else does."""
    patches = [_patch(text) for text in sets]
    if not patches:
        raise InvalidInputError("nothing to set", code="invalid_set", hint="add --set approved=true")
    log = TaskLog()
    with wiring.open_local(home, on_log=log.add) as runtime:
        execution_id = resolve_id(runtime, name)
        _refuse_ended(runtime, execution_id, "changed")
        runtime.patch_context(execution_id, patches, principal(), reason)
        return follow(runtime, [execution_id], as_json=as_json, quiet=quiet, log=log)


def _patch(text: str) -> Patch:
    """``a.b=1`` merges into the key ``a``; ``a=1`` sets it."""
    keys, value = parse_set(text)
    if len(keys) == 1:
        return Patch("ctx", keys[0], value)
    for key in reversed(keys[1:]):
        value = {key: value}
    return Patch("ctx", keys[0], value, "merge")


def _refuse_ended(runtime: wiring.Reading, execution_id: int, what: str) -> None:
    status = read_execution.find(runtime.store, execution_id).status
    if status in TERMINAL:
        raise ConflictError(
            f"execution {execution_id} is {status} and cannot be {what}", code="execution_ended"
        )


def _let_children_end(runtime: wiring.Runtime, execution_id: int) -> None:
    """The word to sub-executions is on its way when ``cancel`` returns; it arrives while the runtime runs."""
    children = [
        info.execution_id
        for status in ("running", "paused")
        for info in runtime.store.executions(limit=10_000, status=status)
        if info.parent_execution_id == execution_id
    ]
    if children:
        with suppress(TimeoutError):
            runtime.run_until(children, timeout=_CANCEL_SECONDS)


def principal() -> str:
    """Who types this: recorded with what they change."""
    try:
        return f"user:{getpass.getuser()}"
    except (KeyError, OSError):
        return "user:unknown"


def resolve_id(reading: wiring.Reading, name: str) -> int:
    """An execution id as text, or ``latest``. Raises InvalidInputError and NotFoundError."""
    if name == "latest":
        return read_execution.latest(reading.store)
    if not (name.isascii() and name.isdigit() and len(name) <= 19 and 0 < int(name) < 2**63):
        raise InvalidInputError(
            f"{name[:80]!r} is not an execution id",
            code="invalid_execution_id",
            hint="an id is a number such as `noetl list` shows, or `latest`",
        )
    return int(name)
