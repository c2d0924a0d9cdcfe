"""Start an execution: check the request, then store it durably.

A process that handles events itself (``start_event`` → ``handle_events``) makes the execution, its first facts and its first commands in
one commit. Behind queues, ``start_execution`` makes the execution and its Start in one commit, and the engine takes it from there.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from noetl.domain import codec, ids
from noetl.domain.automations.schedules import instant
from noetl.domain.errors import ConflictError, InvalidInputError
from noetl.domain.events import Start
from noetl.domain.labels import check_labels, fitting_labels
from noetl.domain.limits import refusal
from noetl.domain.outcomes.report_checks import plain_text
from noetl.domain.sizes.gate import check_document, exceeded
from noetl.domain.sizes.table import AHEAD_SECONDS, PATH
from noetl.domain.workers.lease_owners import later
from noetl.dsl.json_schema.check import misfits
from noetl.dsl.program import Program
from noetl.ports.credentials import CredentialNames
from noetl.ports.executions.execution_store import CreatedExecution, Creation, ExecutionStore, IdempotencyKey
from noetl.services.credentials.check_keychain import check_keychain

MAX_AHEAD = AHEAD_SECONDS.value
"""Seconds between a request and the start it asks for."""
TRIES = 5
"""Ids that are tried before giving up; two starts of one millisecond meet once in four million."""
_PROBLEMS_SHOWN = 3
"""Problems of a payload in a message; ``details`` have more."""


class StartRequest(msgspec.Struct, frozen=True):
    """A request to start an execution.

    ``path``/``version``: the playbook's, in the catalog. ``key``/``identity``: an idempotency key of this principal, and everything that
    the request asks for under it. ``start_values``: values about the start itself that the workload receives. Names of the payload win
    over them, and they are not checked against ``input``. ``at``: when it starts (epoch seconds); a time that has passed means now.
    ``priority``: replaces the playbook's own. ``labels``: override those of the playbook. ``no_cache``: no task takes the result of an
    earlier call. ``answered``: a client waits for the answer, so a start beyond the playbook's
    concurrency limit is refused; otherwise its execution exists and fails.
    """

    payload: dict[str, Any]
    path: str = ""
    version: int | None = None
    principal: str = ""
    principal_kind: str = ""
    key: str = ""
    identity: Any = None
    start_values: Mapping[str, Any] = msgspec.field(default_factory=dict)
    at: float | None = None
    priority: int | None = None
    labels: Mapping[str, str] = {}
    no_cache: bool = False
    answered: bool = True


class Started(msgspec.Struct, frozen=True):
    """A started execution.

    ``event`` is durable and has to be published. It is None when an earlier call under the same key made the execution, when it starts
    later, or when it has begun (``begun``).
    """

    execution_id: int
    event: Start | None
    begun: bool = False

    @property
    def fresh(self) -> bool:
        """Whether this call made the execution, and it starts now."""
        return self.begun or self.event is not None


Begin = Callable[[Start], bool | None]
"""Let the engine of this process begin an execution, in one commit with its first commands. False: another execution has its id. None: the
engine could not, and its inbox has to deal with that. Idempotent."""


def start_execution(
    program: Program,
    request: StartRequest,
    store: ExecutionStore,
    *,
    owner: str,
    now_ms: int,
    random_bits: int,
    again: bool = False,
    names: CredentialNames | None = None,
    begin: Begin | None = None,
    origin: str = "",
) -> Started:
    """Store an execution, its Start event and its idempotency key in one transaction.

    The ``owner`` publishes the event afterwards. ``begin``: in a process that runs an engine, it decides a start that is due now at once,
    without an event. A start that has a key, or that may have to wait, always takes the event. ``origin`` distinguishes this Start from
    others that might have its id; a repeated call has the same one.

    ``again``: the outcome of an earlier attempt with these numbers and this origin is unknown; an execution that it made is this one.
    ``names``: the credentials that the playbook's keychain may refer to; without it, the engine checks them. A repeat under the same key
    returns the execution of the first call, even when that start would be refused now. Raises
    ConflictError(code="idempotency_key_reused") when the key was used for another request, and InvalidInputError(code="payload_invalid",
    "keychain_unresolved" or "invalid_trigger_at").
    """
    key = IdempotencyKey(request.key, fingerprint(request.identity)) if request.key else None
    attempt = _Attempt(program, request, store, key, owner, now_ms, random_bits, again, names, begin, origin)
    try:
        return attempt.start()
    except InvalidInputError:
        found = None if key is None else store.keyed(key)
        if found is None:
            raise
        return Started(_same(found).execution_id, None)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One call of ``start_execution``: it tries ids until one is free."""

    program: Program
    request: StartRequest
    store: ExecutionStore
    key: IdempotencyKey | None
    owner: str
    now_ms: int
    random_bits: int
    again: bool
    names: CredentialNames | None
    begin: Begin | None
    origin: str

    def start(self) -> Started:
        request = self.request
        # By the store's clock, which is what starts it then: a process that is ahead would start it now.
        starts_at = None if request.at is None else _ahead(request.at, self.store.load([]).now)
        check_labels(request.labels)
        created = CreatedExecution(
            path=request.path or self.program.path,
            name=self.program.name,
            playbook_version="" if request.version is None else str(request.version),
            principal=request.principal,
            starts_at=starts_at,
            labels=fitting_labels(self.program.labels, request.labels),
        )
        begin = self.begin if self._may_begin_at_once(created) else None
        for number in range(TRIES):
            event = self._event(self.random_bits + number, created.path, kept=begin is None)
            self._check(event, starts_at)
            begun = begin(event) if begin is not None else None
            if begun:
                return Started(event.execution_id, None, begun)
            if begun is False:
                continue  # Another execution has this id.
            started = self._create(event, created, in_doubt=begin is not None)
            if started is not None:
                return started
        raise ConflictError("too many executions start in this millisecond", code="busy", retryable=True)

    def _may_begin_at_once(self, created: CreatedExecution) -> bool:
        """Check whether the engine may begin it before anything is stored.

        A key, a label, a limit and a later time have to be stored first.
        """
        waits = created.starts_at is not None or self.program.concurrency is not None
        return not (waits or self.key is not None or created.labels)

    def _event(self, bits: int, path: str, *, kept: bool) -> Start:
        request = self.request
        return start_event(
            self.program,
            request.payload,
            now_ms=self.now_ms,
            random_bits=bits,
            principal=request.principal,
            principal_kind=request.principal_kind,
            start_values=request.start_values,
            priority=request.priority,
            no_cache=request.no_cache,
            origin=self.origin,
            kept=kept,
            found=(path, request.version),
        )

    def _check(self, event: Start, starts_at: float | None) -> None:
        """Refuse what exceeds a limit, and a keychain that names missing credentials."""
        if starts_at is None and self.request.answered:
            refuse_excess(self.program, event, self.store, self.now_ms / 1000)
        if self.names is not None and self.program.keychain:
            check_keychain(self.program, event, self.names, self.now_ms / 1000)

    def _create(self, event: Start, created: CreatedExecution, *, in_doubt: bool) -> Started | None:
        """Store the execution with its Start; None when another execution has the id.

        ``in_doubt``: the engine may have begun it, although it could not say so.
        """
        owner = self.owner if created.starts_at is None else later(created.starts_at)
        found = _same(self.store.create(event, created, owner, self.key))
        # Of an attempt in doubt: a key shows whether it was carried out; without one, its Start does.
        own = self.again and not found.taken
        if found.taken and self.key is None and (self.again or in_doubt):
            own = _is_begun_by(event, self.store)
        if found.fresh or (own and found.execution_id == event.execution_id):
            return Started(found.execution_id, event if created.starts_at is None else None)
        return None if found.taken else Started(found.execution_id, None)


def _is_begun_by(start: Start, store: ExecutionStore) -> bool:
    """Return whether the execution that has the id of ``start`` begins, or began, with it."""
    waiting = store.start_of(start.execution_id)
    if waiting is not None:
        return waiting.event_id == start.event_id
    return bool(store.find_events(start.execution_id, [start.event_id]))


def _same(found: Creation) -> Creation:
    if not found.same:
        raise ConflictError(
            "this idempotency key was used for another request",
            code="idempotency_key_reused",
            hint="a key belongs to one request: the same key with the same body, or a new key",
        )
    return found


def _ahead(at: float, now: float) -> float | None:
    """Return ``at``, or None when it has passed.

    Raises InvalidInputError(code="invalid_trigger_at") for a time too far ahead.
    """
    if at <= now:
        return None
    if at - now > MAX_AHEAD:
        remedy = "ask for a time at most 366 days ahead, or make a schedule"
        what = f"the time until {instant(at)}"
        raise exceeded(AHEAD_SECONDS, math.ceil(at - now), what, code="invalid_trigger_at", remedy=remedy)
    return at


def fingerprint(request: Any) -> str:
    """Return a digest of a JSON value, the same for every order of its keys."""
    return hashlib.sha256(codec.encode(_ordered(request))).hexdigest()


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value)}
    return [_ordered(item) for item in value] if isinstance(value, list) else value


def start_event(
    program: Program,
    payload: dict[str, Any],
    *,
    now_ms: int,
    random_bits: int,
    principal: str = "",
    principal_kind: str = "",
    start_values: Mapping[str, Any] | None = None,
    priority: int | None = None,
    no_cache: bool = False,
    origin: str = "",
    kept: bool = False,
    found: tuple[str, int | None] | None = None,
) -> Start:
    """Make the event that starts ``program``; the execution exists once the engine handled it.

    ``now_ms`` and ``random_bits`` make the execution id. ``origin`` and ``kept``: see ``ids.start_event``.
    ``found``: path and version of the playbook; without them, the path that it calls its own.
    Raises InvalidInputError(code="payload_invalid") when the payload does not fit the playbook's ``input`` schema, and code="size_limit"
    when it exceeds a limit.
    """
    check_payload(program, payload)
    path, version = found or (program.path, None)
    return Start(
        ids.execution_id(now_ms, random_bits),
        ids.start_event(origin, kept),
        program.hash,
        path,
        version,
        payload={**(start_values or {}), **payload},
        principal=principal,
        principal_kind=principal_kind,
        priority=priority,
        no_cache=no_cache,
    )


def created_by(event: Start, program: Program | None) -> CreatedExecution:
    """Describe the execution that ``event`` makes, by the path it was asked for under."""
    path = plain_text(event.path, PATH.value)
    return CreatedExecution(
        path=path or (program.path if program is not None else ""),
        name=program.name if program is not None else path,
        playbook_version=str(event.version or (program.version if program is not None else "")),
        parent_execution_id=event.parent.execution_id if event.parent is not None else None,
        principal=plain_text(event.principal),
        start=event.event_id,
        awaited_by=event.awaited_by,
    )


def refuse_excess(program: Program, start: Start, store: ExecutionStore, now: float) -> None:
    """Refuse a start beyond its concurrency limit.

    Only when the playbook says ``on_excess: refuse``.

    When two starts pass this check at the same moment, the engine applies the limit as they begin. Raises
    ConflictError(code="concurrency_limit").
    """
    if program.concurrency is None or program.concurrency.on_excess != "refuse":
        return
    from noetl.engine.admission import admission_of  # templates: loaded by who needs them

    admission = admission_of(program, start, now)
    found = store.limit_keys(key=admission.key, limit=1) if admission is not None else ()
    if admission is None or not found:
        return
    most = found[0].numbers.concurrent if found[0].source == "operator" else admission.concurrent
    if most is not None and found[0].in_use >= most:
        raise refusal(admission.key, most, [one.execution_id for one in found[0].holders])


def check_payload(program: Program, payload: Any) -> None:
    """Check a payload against the limits and the playbook's ``input`` schema, if it has one.

    Raises InvalidInputError(code="size_limit" or "payload_invalid").
    """
    if not isinstance(payload, dict):
        raise InvalidInputError("the payload has to be a mapping", code="payload_invalid")
    check_document(payload, "payload")
    if program.input_schema is None:
        return
    problems = misfits(program.input_schema, payload)
    if problems:
        more = f"; and {len(problems) - _PROBLEMS_SHOWN} more" if len(problems) > _PROBLEMS_SHOWN else ""
        raise InvalidInputError(
            "; ".join(problems[:_PROBLEMS_SHOWN]) + more,
            code="payload_invalid",
            hint=f"correct the payload: the playbook {program.name} declares what it accepts under `input`",
            details={"problems": problems},
        )
