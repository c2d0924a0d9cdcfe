"""The migration of a deployment, before its functions change.

It migrates the schema, makes the functions' role, registers the deployment's playbooks, and brings the web UI. CloudFormation calls it
(custom resources, through CDK's provider framework).
"""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeVar

from noetl.adapters.aws.clients import answering, make_client
from noetl.adapters.aws.s3 import S3ProgramStore
from noetl.adapters.aws.secrets import database_dsn, role_of
from noetl.adapters.postgres.catalog import PostgresCatalog
from noetl.adapters.postgres.connection import Database
from noetl.adapters.postgres.migrations import check_known, migrate
from noetl.adapters.postgres.reader_role import make_reader_role
from noetl.adapters.postgres.roles import make_app_role
from noetl.domain.errors import InfrastructureError, InvalidInputError, NoetlError
from noetl.ports.programs import ProgramStore
from noetl.runtime.authentic_programs import AuthenticPrograms
from noetl.runtime.aws.keys import CloudKeys
from noetl.runtime.aws.settings import CloudSettings
from noetl.runtime.aws.ui_bucket import UI, bring_ui, remove_ui
from noetl.runtime.deployed_catalog import Registrar, schedule_deps
from noetl.runtime.stored_programs import Programs, StoredPrograms
from noetl.services.automations.schedules import declared
from noetl.services.catalog.register_playbook import SUFFIXES, is_playbook_text, playbook_text

T = TypeVar("T")
MIGRATION, PLAYBOOKS = "Custom::NoetlMigration", "Custom::NoetlPlaybooks"
PATIENCE = 150.0
"""Seconds: a database that has just been made, or that was paused, takes a while to answer."""
PAUSE = 3.0
MAX_PLAYBOOK = 5 * 1024 * 1024
REASON = 3000
"""Characters of an error that CloudFormation gets to see: its answers hold 4 KB."""


@dataclass(frozen=True, slots=True)
class Migration:
    """``role``: name and password of the functions' role, where they have one of their own."""

    dsn: str
    programs: ProgramStore
    fetch: Callable[[str, str], bytes]
    """(bucket, key) → an object's bytes."""
    role: tuple[str, str] | None = None
    settings: CloudSettings | None = None
    """Of the deployment whose schedules playbooks declare."""
    patience: float = PATIENCE
    reader: tuple[str, str] | None = None
    """Name and password of the role that reads the views of history."""


def open_migration(settings: CloudSettings) -> Migration:
    """Make the migration. Raises InvalidInputError and InfrastructureError."""
    secrets = make_client("secretsmanager")
    role = role_of(secrets, settings.app_secret) if settings.app_secret else None
    reader = role_of(secrets, settings.reader_secret) if settings.reader_secret else None
    dsn = settings.database_url or database_dsn(secrets, settings.database_secret, settings.database_host)
    return Migration(
        dsn,
        AuthenticPrograms(
            S3ProgramStore(settings.results_bucket, make_client("s3")), CloudKeys(settings.token_secret)
        ),
        fetch_object,
        role,
        settings,
        reader=reader,
    )


def fetch_object(bucket: str, key: str) -> bytes:
    with answering("s3"):
        data: bytes = make_client("s3").get_object(Bucket=bucket, Key=key)["Body"].read()
    return data


def on_event(event: Mapping[str, Any], migration: Callable[[], Migration]) -> dict[str, Any]:
    """Answer an event of the provider framework. Deleting a stack touches no data.

    Raises RuntimeError with the message that CloudFormation shows to the operator.
    """
    kind = str(event.get("ResourceType", ""))
    if kind not in (MIGRATION, PLAYBOOKS, UI):
        raise RuntimeError(f"{kind[:100]!r} is none of {MIGRATION}, {PLAYBOOKS} and {UI}")
    answer: dict[str, Any] = {
        "PhysicalResourceId": event.get("PhysicalResourceId") or kind.rpartition(":")[2]
    }
    properties = event.get("ResourceProperties") or {}
    deleted = event.get("RequestType") == "Delete"
    try:
        if kind == UI:
            return answer | _serve_ui(properties, deleted=deleted)
        if deleted:
            return answer
        work = migration()
        if kind == MIGRATION:
            if event.get("RequestType") == "Update":
                _patiently(lambda: check_known(work.dsn), work.patience)
            return {**answer, "Data": {"Applied": ", ".join(migrate_schema(work))}}
        return {**answer, "Data": {"Registered": str(register_archive(work, properties))}}
    except NoetlError as error:
        raise RuntimeError(f"{error.code}: {error}"[:REASON]) from error


def _serve_ui(properties: Mapping[str, Any], *, deleted: bool) -> dict[str, Any]:
    """Bring the files of the web UI, or remove them; no database is needed."""
    s3 = make_client("s3")
    if deleted:
        remove_ui(properties, s3)
        return {}
    return {"Data": {"Files": str(bring_ui(properties, s3))}}


def migrate_schema(work: Migration) -> list[str]:
    """Migrate the schema; return the applied migrations. Raises InfrastructureError."""
    applied = _patiently(lambda: migrate(work.dsn), work.patience)
    if work.role is not None:
        make_app_role(work.dsn, *work.role)
    if work.reader is not None:
        make_reader_role(work.dsn, *work.reader)
    return applied


def _patiently(call: Callable[[], T], patience: float) -> T:
    until = time.monotonic() + patience
    while True:
        try:
            return call()
        except InfrastructureError as error:
            if not error.retryable or time.monotonic() + PAUSE > until:
                raise
            time.sleep(PAUSE)


def register_archive(work: Migration, properties: Mapping[str, Any]) -> int:
    """Register the playbooks of an archive; return how many.

    ``properties``: Bucket and Key of a zip, and Prefix of the names in it that count. Raises InvalidPlaybookError, InvalidInputError,
    InfrastructureError.
    """
    data = work.fetch(str(properties.get("Bucket", "")), str(properties.get("Key", "")))
    with closing(Database(work.dsn)) as database:
        registrar = _registrar(work, database)
        count = 0
        for name, text in playbooks_in(data, str(properties.get("Prefix", ""))):
            registrar.register(text, source_name=name)
            count += 1
    return count


def _registrar(work: Migration, database: Database) -> Registrar:
    catalog = PostgresCatalog(database)
    registrar = Registrar(catalog, work.programs)
    if work.settings is not None:
        programs = Programs(StoredPrograms(work.programs), catalog, registrar)
        registrar.registered = declared(schedule_deps(work.settings, database, catalog, programs))
    return registrar


def playbooks_in(archive: bytes, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Name and text of each playbook in a zip, by name. Raises InvalidInputError."""
    try:
        with zipfile.ZipFile(io.BytesIO(archive)) as found:
            for entry in sorted(found.infolist(), key=lambda one: one.filename):
                if not entry.filename.startswith(prefix) or not entry.filename.endswith(SUFFIXES):
                    continue
                if entry.file_size > MAX_PLAYBOOK:
                    raise InvalidInputError(f"{entry.filename} is too large to be a playbook")
                data = found.read(entry)
                if is_playbook_text(data):
                    yield entry.filename, playbook_text(data)
    except zipfile.BadZipFile as error:
        raise InvalidInputError(f"the playbooks of the deployment are not a zip: {error}") from error
