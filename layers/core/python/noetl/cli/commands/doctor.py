"""``noetl doctor``: what this machine lacks, each with its remedy."""

from __future__ import annotations

import contextlib
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from noetl.cli import errors
from noetl.cli.client import runtime_access
from noetl.cli.render.output import duration, out, out_json
from noetl.domain.errors import NoetlError
from noetl.runtime.local.machine_checks import (
    Check,
    check_guests,
    check_home,
    check_packages,
    check_python,
)

_LARGE_LOG = 256 * 1024**2
_OLDEST_POSTGRES = 14


def doctor(*, as_json: bool, home: str | None) -> int:
    """Run every check; 3 when any failed."""
    failed = False
    for check in _checks(home):
        failed = failed or check.status == "failed"
        if as_json:
            out_json(asdict(check))
        else:
            mark = {"ok": "ok  ", "warning": "warn", "failed": "FAIL"}[check.status]
            out(f"{mark}  {check.name:<19} {check.detail}")
            if check.status != "ok":
                out(f"      fix: {check.fix}")
    if not as_json:
        out("something has to be fixed first" if failed else "ready: try `noetl run FILE`")
    return errors.ENVIRONMENT if failed else errors.DONE


def _checks(home: str | None) -> Iterator[Check]:
    yield check_python(sys.version_info[:3])
    yield check_packages()
    try:
        settings = runtime_access.settings(home)
    except NoetlError as error:
        yield Check("settings", "failed", error.message, error.hint or "see docs/configuration.md")
        return
    folder = check_home(settings.home)
    yield folder
    if folder.status != "failed":
        yield _guarded("database", lambda: check_database(settings))
        yield _guarded("results", lambda: check_results(settings))
    yield check_credentials(settings.credentials_file)
    yield from check_processes(settings.home)
    yield from check_guests()
    yield check_node()


def check_database(settings: Any) -> Check:
    """The database answers, is new enough, and has our schema."""
    from noetl.adapters.postgres.connection import Database
    from noetl.adapters.postgres.executions.retention import PostgresRetention
    from noetl.cli.commands.database import look, open_database, place
    from noetl.services.results.prune import TOO_LARGE, TOO_LARGE_FIX

    begun = time.perf_counter()
    with open_database(settings) as dsn:
        facts, too_large = look(dsn), False
        if settings.retention.executions is not None and not facts["pending"]:
            with contextlib.closing(Database(dsn)) as database:
                too_large = PostgresRetention(database).cannot_be_ended()
    spent = duration((time.perf_counter() - begun) * 1000)
    where = f"{place(settings)}, Postgres {facts['server']}, answered in {spent}"
    if int(str(facts["server"]).split(".")[0].split()[0]) < _OLDEST_POSTGRES:
        return Check("database", "failed", f"{where}: too old", f"use Postgres {_OLDEST_POSTGRES} or newer")
    if facts["pending"]:
        return Check(
            "database", "failed", f"{where}: {len(facts['pending'])} migrations missing", "noetl db migrate"
        )
    if too_large:
        return Check("database", "warning", f"{where}; {TOO_LARGE}", TOO_LARGE_FIX)
    return Check("database", "ok", where)


def check_results(settings: Any) -> Check:
    """Check that every remote tier stores an object, returns it, and refuses to replace it."""
    from noetl.adapters.postgres.connection import Database
    from noetl.domain.errors import ConflictError
    from noetl.domain.results.references import ref_uri
    from noetl.runtime.local.results import local_results
    from noetl.runtime.storage_settings import CLOUD_TIERS

    shared = settings.database_url is not None
    results = local_results(settings.storage, settings.home, Database(""), shared=shared)
    uri = ref_uri(0, "doctor", secrets.token_hex(8))
    for name in CLOUD_TIERS:
        tier = results.tiers.get(name)
        if tier is None:
            continue
        try:
            tier.put(uri, b"1")
            if tier.get(uri) != b"1":
                return Check(
                    "results", "failed", f"the tier {name} returns something else", "use another store"
                )
            tier.put(uri, b"2")
        except ConflictError:
            continue
        except NoetlError as error:
            fix = error.hint or "docs/results.md shows how to set it up"
            return Check("results", "failed", f"the tier {name}: {error.message}", fix)
        finally:
            with contextlib.suppress(NoetlError):
                tier.delete([uri])
        fix = "use a server that honours If-None-Match"
        return Check("results", "failed", f"the tier {name} replaces objects that exist", fix)
    others = ", ".join(sorted(results.tiers.keys() - {results.name}))
    alone = ", which processes with another home folder do not see" if settings.keeps_results_alone else ""
    return Check("results", "ok", f"large ones go to {results.name}{alone}; there are {others} as well")


def check_credentials(path: Path | None) -> Check:
    """The file of named secrets can be read, by its owner only, and is a mapping."""
    if path is None:
        return Check("credentials", "ok", "no file (NOETL_CREDENTIALS is not set)")
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        from noetl.cli.actions.payload import read_payload

        names = read_payload(str(path), ())
    except (OSError, NoetlError) as error:
        return Check(
            "credentials",
            "failed",
            str(getattr(error, "message", error)),
            "point NOETL_CREDENTIALS at a YAML or JSON mapping",
        )
    if mode & 0o077:
        return Check(
            "credentials", "warning", f"{path} can be read by others (mode {mode:o})", f"chmod 600 {path}"
        )
    return Check("credentials", "ok", f"{path}: {len(names)} credentials")


def check_processes(home: Path) -> Iterator[Check]:
    """Check the servers and workers of this home folder that run now.

    Those in the background have a log that should stay small.
    """
    from noetl.cli.actions.daemons import processes

    for kind in ("server", "worker"):
        found = processes(home).running(kind)
        shown = ", ".join(
            f"{one.name} (process {one.pid}{'' if one.ready else ', starting'})" for one in found
        )
        large = [one.log for one in found if one.log and _size(one.log) > _LARGE_LOG]
        if large:
            fix = f"stop it, move {large[0]} away, start it again"
            yield Check(f"{kind}s", "warning", f"{shown}; {large[0]} has grown large", fix)
        else:
            yield Check(f"{kind}s", "ok", shown or f"none (`noetl {kind} start --detach`)")


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0


def check_node() -> Check:
    """Node, which only deployments need."""
    from noetl.local import tools

    try:
        return Check("node", "ok", tools.check_node())
    except NoetlError as error:
        return Check(
            "node", "warning", error.message, f"{error.hint}; only `noetl local` and deployments need it"
        )


def _guarded(name: str, check: Callable[[], Check]) -> Check:
    try:
        return check()
    except NoetlError as error:
        return Check(name, "failed", error.message, error.hint or "see the message")
    except Exception as error:
        return Check(
            name, "failed", f"{type(error).__name__}: {error}", "see the message; NOETL_DEBUG=1 shows more"
        )
