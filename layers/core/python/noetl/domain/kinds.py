"""The declaration of a tool kind, and the context that a kind receives when it runs.

A kind is one module in ``noetl.kinds`` with ``SPEC`` (a KindSpec), ``Params`` (a pydantic model that refuses unknown
fields) and ``run(params, context) -> TaskResult | ChildRequest | WaitRequest | PollRequest``. One that answers with a PollRequest also
has ``stop(state, context)``, which ends the work in the other system. See ``noetl.kinds.registry``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, Protocol, Self

import msgspec

from noetl.domain.errors import TaskError
from noetl.domain.workers.container_jobs import Jobs, NoJobs

Pool = Literal["control", "io", "cpu", "python"]
CONTROL_KINDS = frozenset({"noop", "playbook", "wait"})
"""Kinds that call no tool: what they ask for, the engine does."""
UNCALLED_KINDS = CONTROL_KINDS | {"iterator"}
"""Kinds of entries in a trace that are no call of a tool: those, and a nested loop, whose tasks have entries of their own."""


CODE_CHARACTERS = 1_000_000
"""Longest source of a ``python`` task."""


@dataclass(frozen=True, slots=True)
class KindSpec:
    """Static facts about a kind.

    The engine, the worker, the schema, the documentation and the infrastructure read them here.
    """

    name: str
    summary: str
    pool: Pool
    """``control`` runs inside the engine without a message; ``io`` overlaps many calls; ``cpu`` few; ``python`` is isolated."""
    default_timeout: float = 60.0
    """Seconds one call may take unless the task says otherwise."""
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Published other spellings of parameters: alias → name (``{"endpoint": "url"}``)."""
    sql_fields: tuple[str, ...] = ()
    """Parameters whose templates become bound SQL parameters; ``source.query`` is one inside the mapping ``source``."""
    raw_fields: tuple[str, ...] = ()
    """Parameters that are never templates (``code``): taken literally, braces and all."""
    ref_fields: tuple[str, ...] = ()
    """Parameters that are given as they are, with references of large results in them; in all others these are read first."""
    other_names: tuple[str, ...] = ()
    """Published second names of the kind (``result`` of ``artifact``); programs and workers know the first alone."""
    result_fields: tuple[str, ...] = ()
    """Names that its result may have, for completion in editors; one inside of another has a dot in it (``command_0.rows``)."""
    codes: tuple[str, ...] | None = None
    """The codes of its errors beside those of every kind (``STEP_CODES``), where it lists all of them; `on` of an arc takes no other."""
    lowered: bool = False
    """The compiler rewrites it (workbook, iterator): it never reaches a worker."""
    needs_network: bool = False
    long_running: bool = False
    own_worker: bool = False
    """Its worker has more rights in the account than others: a deployment never assigns that worker to other kinds."""
    poll_seconds: float = 0.0
    """More than 0: it begins work in another system and asks for its progress (PollRequest). One call takes at most this many seconds;
    the task's time-out counts from the first call to the end of the work.
    """
    layer: str = ""
    """The kind whose layer of libraries its workers have too (``duckdb``); its own, if there is one, unless this is given."""
    extra: str | None = None
    """Optional dependency group that must be installed (``local``)."""


class ParamProblem(msgspec.Struct, frozen=True):
    """One thing to report about a task's parameters, found without running it."""

    path: tuple[str | int, ...]
    message: str
    hint: str | None = None
    code: str = "kind-params"
    place: tuple[int, int] | None = None
    """(line, column) inside the text that ``path`` leads to, 1-based."""
    severity: Literal["error", "note"] = "error"


class Hole:
    """A placeholder that fits any type, for templates in parameters that are not rendered yet."""

    def __repr__(self) -> str:
        return "<template>"


HOLE = Hole()


class SqlEscape(NamedTuple):
    """A place where a SQL text doubles the quotes of a value by hand."""

    start: int
    end: int
    quoted: bool
    """The value is between quotes."""
    through: str = ""
    """The name that ``{% set %}`` gave the escaped value; the place is where it is used."""


class JoinedList(NamedTuple):
    """A place where a SQL text joins a list to the one text that ``IN ( … )`` holds."""

    start: int
    end: int
    expression: str
    """The list, without the join."""
    negated: bool
    """``NOT IN``."""
    quoted: bool
    """The joined text is between quotes."""

    @property
    def comparison(self) -> str:
        """What compares with the items of the list instead."""
        quote = "'" if self.quoted else ""
        return f"{'<> ALL' if self.negated else '= ANY'}({quote}{{{{ {self.expression} }}}}{quote})"


class KindLookup(Protocol):
    """The registry as the compiler needs it.

    It is an argument, so that imports keep their direction.
    """

    def names(self) -> tuple[str, ...]:
        """Every kind, sorted."""

    def spec(self, name: str) -> KindSpec:
        """Raises KeyError."""

    def check(self, name: str, params: Mapping[str, Any]) -> list[ParamProblem]:
        """Check parameters that have ``HOLE`` in the place of templates.

        It reports unknown and missing fields, and wrong literal values.
        """

    def sql_problem(self, text: str) -> tuple[str, str | None, int] | None:
        """Return what is wrong with a SQL text, whichever values it gets: message, hint, line."""

    def sql_escapes(self, text: str) -> tuple[SqlEscape, ...]:
        """Return where a SQL text doubles the quotes of values by hand."""

    def sql_lists(self, text: str) -> tuple[JoinedList, ...]:
        """Return where a SQL text joins a list for ``IN ( … )``."""

    def schema(self, name: str) -> dict[str, Any]:
        """JSON Schema of the parameters (aliases included)."""


@dataclass(frozen=True, slots=True)
class Credential:
    """A named secret as a kind receives it.

    ``data`` must never reach an event, a log or a result.
    """

    name: str
    type: str
    data: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskSettings:
    """Limits and grants of the place where tasks run."""

    http_allow: tuple[str, ...] = ()
    """Hosts and CIDRs that may be reached although they are internal (``NOETL_HTTP_ALLOW``)."""
    http_max_bytes: int = 64 * 1024 * 1024
    python_memory_bytes: int = 1024 * 1024 * 1024
    duckdb_memory_bytes: int = 128 * 1024 * 1024
    """What a DuckDB may hold in memory; the rest of its work goes to disk."""
    output_max_bytes: int = 64 * 1024 * 1024
    """Largest result or output a task may produce."""
    artifact_max_bytes: int = 16 * 1024**3
    """Largest result that is written as a stream."""
    workspace_dsn: str | None = None
    """Scratch database of a local run: what ``postgres`` uses when a task names no ``auth``."""
    workspace_credential: str = ""
    """The credential that names the scratch database of a deployment (``NOETL_WORKSPACE``)."""
    data_dirs: tuple[str, ...] = ()
    """Folders that duckdb and code of playbooks may read (the playbook's own folder in a local run)."""
    work_dir: str | None = None
    """Folder for files that tasks of this deployment may write."""
    task_folders: tuple[str, ...] = ()
    """Folders that code of playbooks may read and write beside its own (``NOETL_TASK_FOLDERS``). A shell command begins in the first."""
    hidden_dirs: tuple[str, ...] = ()
    """Folders and files that code of playbooks never sees, also where a folder that it may read contains them."""
    task_disk_bytes: int = 4 * 1024**3
    """What code of a playbook may keep in its own folder."""
    task_processes: int = 512
    """Processes and threads that code of a playbook may have at a time."""
    own_buckets: tuple[str, ...] = ()
    """Buckets of the deployment itself, which tasks reach through results and never by name."""
    aws_auth_required: bool = False
    """Tasks that call AWS have to name a credential; none uses the identity of its worker (``NOETL_AWS_AUTH=required``)."""
    libraries_dir: str = ""
    """Folder for the installed libraries of playbooks; empty: this place installs none."""
    wheels_dir: str = ""
    """Folder of wheels that libraries are installed from, instead of an index (``NOETL_WHEELS``)."""


ArtifactFormat = Literal["json", "jsonl", "csv", "parquet", "text", "bytes"]


class ResultOptions(msgspec.Struct, frozen=True):
    """How a result is to be kept, as ``spec.result.store`` says it."""

    store: str | None = None
    scope: str | None = None
    ttl: str | None = None
    compression: str | None = None


class ArtifactWriter(Protocol):
    """An artifact that is being written.

    A context manager: what is left without ``close`` leaves nothing behind.
    """

    @property
    def size(self) -> int:
        """Bytes so far."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def write(self, data: bytes) -> None:
        """Write further bytes.

        Raises TaskError(kind="storage_quota", code="result_too_large") above what the deployment keeps.
        """

    def close(self, extracted: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The reference; durable now.

        ``extracted``: scalars that stay readable on it (``row_count``).
        """


Redaction = Callable[[Path, Path], None]
"""(file, copy): the copy has a ``*`` for every byte of a secret."""


class Artifacts(Protocol):
    """Results as streams of bytes.

    A task writes them where large results live; others read them without holding them in memory.
    """

    def create(
        self, format: ArtifactFormat, content_type: str = "", options: ResultOptions | None = None
    ) -> ArtifactWriter:
        """``options``: instead of the task's own."""

    def open(self, ref: Mapping[str, Any]) -> AbstractContextManager[BinaryIO]:
        """Its bytes, as they were written. Their checksum is verified where they end.

        Raises TaskError(kind="storage_access", code="REFERENCE_NOT_AVAILABLE").
        """

    def file(self, ref: Mapping[str, Any], suffix: str = "") -> AbstractContextManager[Path]:
        """Open the artifact as a file, to be read only.

        It is the tier's own file where it has one, else a copy that is removed with the context.
        """

    def redaction(self) -> Redaction | None:
        """Return what takes secrets out of a file that holds texts as they are.

        None: the task knows no secrets.
        """


class NoArtifacts:
    """Where there is no place for results."""

    def create(
        self, format: ArtifactFormat, content_type: str = "", options: ResultOptions | None = None
    ) -> ArtifactWriter:
        raise self._error()

    def open(self, ref: Mapping[str, Any]) -> AbstractContextManager[BinaryIO]:
        raise self._error()

    def file(self, ref: Mapping[str, Any], suffix: str = "") -> AbstractContextManager[Path]:
        raise self._error()

    def redaction(self) -> Redaction | None:
        return None

    @staticmethod
    def _error() -> TaskError:
        return TaskError("large results cannot be kept here", kind="storage_access", code="no_result_store")


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What a running task may know and use."""

    execution_id: int
    step: str
    task: str
    attempt: int
    """1-based try number of this task."""
    idempotency_key: str
    """Stable over every attempt: execution / step run / iteration / task."""
    timeout: float
    """Seconds this call may take."""
    settings: TaskSettings
    credential: Callable[[str], Credential]
    """Looks a credential up by name. Raises TaskError(kind="auth")."""
    cancelled: Callable[[], bool] = lambda: False
    log: Callable[[str], None] = lambda line: None
    """One line of the task's own output."""
    input: Mapping[str, Any] = field(default_factory=dict)
    """The task's rendered ``args``/``input``."""
    lookup: Callable[[str], Any] = lambda name: (_ for _ in ()).throw(KeyError(name))
    """A name from the task's scope (python fills ``main()`` parameters that ``args`` does not give). Raises KeyError."""
    conceal: Callable[[Mapping[str, Any], Mapping[str, Any]], None] = lambda params, data: None
    """``data`` is secret, and is read again by calling the kind ``secrets`` with ``params``."""
    artifacts: Artifacts = field(default_factory=NoArtifacts)
    """Large results as streams."""
    pending: Mapping[str, Any] | None = None
    """What the last call of this task said of the work in the other system; None when none was begun."""
    left: float = 0.0
    """Seconds until the task's time-out is over; with ``pending`` it counts from the first call on."""
    jobs: Jobs = field(default_factory=NoJobs)
    """Containers that run as work of their own."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Path → text of the Python files that are shipped with the playbook."""
    lock: str = ""
    """The lock of the libraries that the playbook requires; empty: it requires none."""
    program: str = ""
    """The digest of the program that runs: the same for all executions of one version of a playbook."""
    wake: str = ""
    """Names the suspended task to those outside who may wake it before its delay is over (``domain.events.WorkAdvanced``)."""


class TaskResult(msgspec.Struct, frozen=True):
    """What a call gave.

    ``meta`` carries helpers templates see on ``outcome``: ``http``, ``pg``, ``py``.
    """

    result: Any
    meta: Mapping[str, Any] = msgspec.field(default_factory=dict)
