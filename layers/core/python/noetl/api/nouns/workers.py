"""Routes of workers that fetch their commands, programs and values over HTTP."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from noetl.api.deps import ApiDeps
from noetl.api.http import parse
from noetl.api.http import runtime_bodies as bodies
from noetl.api.http.command_tokens import check_command
from noetl.api.http.exchange import BYTES, Answer, Request
from noetl.api.http.problems import BadRequestError, ForbiddenError
from noetl.api.http.route import Endpoint, Parameter, Route
from noetl.api.http.runtime_bodies import (
    ClaimBody,
    ClaimedAnswer,
    ClaimedCommand,
    ClaimOneAnswer,
    ClaimOneBody,
    GiveBackBody,
    KeptResult,
    PoolView,
    StoredAnswer,
    WorkerAnswer,
    WorkerBody,
    WorkerNameBody,
    WorkersAnswer,
)
from noetl.api.http.waiting import Waiting
from noetl.domain.capability_tokens import grant, verified
from noetl.domain.commands import Command
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.domain.messages import VERSION, Message
from noetl.domain.results.retention import PERMANENT
from noetl.domain.sizes.gate import check_text
from noetl.domain.sizes.table import COMMAND_NAME, REFERENCE, WORKER_NAME
from noetl.domain.workers.command_token import Capability, read_capability
from noetl.dsl.program import encode
from noetl.ports.workers import WorkerPool
from noetl.services.callbacks.callback_keys import callback_key
from noetl.services.messaging.large_messages import pack
from noetl.services.queries.read_execution import find
from noetl.services.worker.http_worker_leases import Claims

CLAIMED_LIMIT = 16_384
"""Bytes of a command in an answer; a larger one is fetched by its reference, so that a hundred of them fit."""


def register(deps: ApiDeps, request: Request) -> Answer:
    body = parse.body(request, deps, WorkerBody)
    check_text(WORKER_NAME, body.name, "the name of a worker", code="body_invalid")
    if not body.name or not body.name.isprintable():
        raise InvalidInputError(
            f"a worker's name is 1 to {WORKER_NAME.value} printable characters", code="body_invalid"
        )
    workers = _workers(deps)
    made = workers.register(body.name, body.pool, body.capacity, request.principal.name)
    return Answer(200, WorkerAnswer(made, workers.lease_seconds))


def heartbeat(deps: ApiDeps, request: Request) -> Answer:
    workers = _workers(deps)
    seen = workers.heartbeat(parse.body(request, deps, WorkerNameBody).name, _registrant(request))
    return Answer(200, WorkerAnswer(seen, workers.lease_seconds))


def deregister(deps: ApiDeps, request: Request) -> Answer:
    """What it has is given to others, at once."""
    _workers(deps).deregister(parse.body(request, deps, WorkerNameBody).name, _registrant(request))
    return list_all(deps, request)


def list_all(deps: ApiDeps, request: Request) -> Answer:
    found = [] if deps.workers is None else list(deps.workers.entries())
    return Answer(200, WorkersAnswer(found, _pools(found)))


def _pools(workers: Iterable[WorkerPool]) -> list[PoolView]:
    living: defaultdict[str, list[WorkerPool]] = defaultdict(list)
    for worker in workers:
        if worker.alive:
            living[worker.pool].append(worker)
    return [
        PoolView(pool, len(own), sum(one.capacity for one in own), sum(one.running for one in own))
        for pool, own in sorted(living.items())
    ]


def claim(deps: ApiDeps, request: Request) -> Answer:
    """Commands with their tokens; none when nothing waits, nor comes within ``wait`` seconds."""
    body = parse.body(request, deps, ClaimBody)
    workers = _workers(deps)
    try:
        if body.wait and deps.claim_waiting is not None:
            commands = _wait_for_commands(deps, deps.claim_waiting, request, body, workers)
        else:
            commands = _claim_for(deps, request, body, workers)
    except _UnwantedError:
        commands = ()
    deps.counted("Claims", len(commands))
    return Answer(200, ClaimedAnswer([_claimed(one, deps) for one in commands], workers.lease_seconds))


class _UnwantedError(Exception):
    """The client of a claim has gone, or its token was removed."""


def _wait_for_commands(
    deps: ApiDeps, waiting: Waiting[str], request: Request, body: ClaimBody, workers: Claims
) -> Sequence[Command]:
    """Claim commands as soon as there are some. Raises _UnwantedError."""
    pool = workers.pool_of(body.name, _registrant(request))
    found: list[Command] = []
    looks = 0

    def look() -> bool:
        nonlocal looks
        looks += 1
        found.extend(_claim_for(deps, request, body, workers))
        return bool(found)

    waiting.wait(pool, body.wait, look, since=request.now_ms / 1000)
    if not looks:  # no place to wait in
        look()
    return found


def _claim_for(deps: ApiDeps, request: Request, body: ClaimBody, workers: Claims) -> Sequence[Command]:
    """Claim commands for a client that is there and may claim, before and after.

    Others would keep them from workers until the end of the lease. Raises _UnwantedError.
    """
    if _is_unwanted(deps, request):
        raise _UnwantedError
    found = workers.claim(body.name, body.limit, _registrant(request))
    if found and _is_unwanted(deps, request):
        for one in found:
            workers.give_back(one.execution_id, one.command_id, one.attempt, one.turn)
        raise _UnwantedError
    return found


def _is_unwanted(deps: ApiDeps, request: Request) -> bool:
    """Return whether the client has gone, or its token was removed since it sent the request."""
    given = request.principal
    removed = deps.tokens is not None and given.token and deps.tokens.of_account(given.account) != given
    return bool(removed) or request.gone()


def claim_one(deps: ApiDeps, request: Request) -> Answer:
    """Claim one command by name. 409 says when to ask again; 410 that the command is over."""
    body = parse.body(request, deps, ClaimOneBody)
    workers = _workers(deps)
    execution, _, command_id = request.params["event_id"].partition(":")
    execution_id = parse.execution_id(execution)
    check_text(
        COMMAND_NAME, command_id, "the id of a command", code="invalid_command", family=BadRequestError
    )
    if not command_id or not command_id.isprintable():
        raise BadRequestError(
            f"{request.params['event_id'][:80]!r} names no command",
            code="invalid_command",
            hint="it is <execution_id>:<command_id>, as a claim and `noetl analyze` show it",
        )
    command = workers.claim_one(body.name or body.worker_id, execution_id, command_id, _registrant(request))
    deps.counted("Claims", 1)
    return Answer(200, ClaimOneAnswer(_claimed(command, deps), workers.lease_seconds))


def _claimed(command: Command, deps: ApiDeps) -> ClaimedCommand:
    ring = deps.events.door.keys(False)
    token = grant(command, ring)
    key = callback_key(command, deps.programs, ring)
    return ClaimedCommand(
        str(command.execution_id),
        command.command_id,
        command.step,
        command.pool,
        command.attempt,
        command.turn,
        Capability.of(command, token).header(),
        pack(
            Message(VERSION, token=token, command=command, callbacks=key), deps.results, limit=CLAIMED_LIMIT
        ),
    )


def give_back(deps: ApiDeps, request: Request) -> Answer:
    """Return a command that was not begun, or not ended, so that another worker runs it."""
    workers = _workers(deps)
    found = read_capability(parse.body(request, deps, GiveBackBody).command)
    if not verified(found.token, found.holds, deps.events.door.keys):
        raise ForbiddenError("this is not the token of a command", details={"scope": "worker"})
    freed = workers.give_back(found.execution_id, found.command_id, found.attempt, found.turn)
    return Answer(200, StoredAnswer("given_back" if freed else "not_held"))


def get_program(deps: ApiDeps, request: Request) -> Answer:
    """Compiled, as workers read it."""
    return Answer(200, text=encode(deps.programs(request.params["program"])).decode())


def get_object(deps: ApiDeps, request: Request) -> Answer:
    """Return an object of the command's execution or its tree, or one of permanent scope."""
    uri = _uri(request.query.get("ref", ""))
    owner = int(uri.removeprefix("noetl://execution/").partition("/")[0])
    check_command(deps, request, None if owner == PERMANENT else owner, related=True)
    try:
        data = deps.results.at(request.query.get("store")).get(uri)
    except NotFoundError:
        if "store" in request.query:
            raise
        data = deps.results.choose(0).get(uri)  # where small values go
    return Answer(200, content=[data], content_type=BYTES)


def put_object(deps: ApiDeps, request: Request) -> Answer:
    """Bytes, immutable under their name.

    Results that outlive their execution are named below 0.

    ``wish``: the tier that the playbook asks for.
    """
    execution_id = PERMANENT
    if request.params["execution_id"] == str(PERMANENT):
        check_command(deps, request, None)
    else:
        execution_id = parse.execution_id(request.params["execution_id"])
        check_command(deps, request, execution_id)
        find(deps.store, execution_id)
    data = parse.sized_body(request, deps)
    tier = deps.results.choose(len(data), request.query.get("wish"))
    tier.put(_uri(f"noetl://execution/{execution_id}/result/{request.params['name']}"), data)
    return Answer(200, KeptResult("stored", tier.name))


def _uri(ref: str) -> str:
    """Raises BadRequestError."""
    head, _, rest = ref.partition("://execution/")
    execution, _, name = rest.partition("/result/")
    parts = name.split("/")
    fits = (
        head == "noetl"
        and parse.whole_number(execution) is not None
        and all(part.strip(".") for part in parts)
    )
    check_text(REFERENCE, ref, "the reference", code="invalid_reference", family=BadRequestError)
    if not fits or not ref.isprintable():
        raise BadRequestError(f"{ref[:80]!r} is no reference of a result", code="invalid_reference")
    return ref


def _registrant(request: Request) -> str:
    """Return the principal whose workers a request may name; empty: those of all."""
    return "" if "admin" in request.principal.scopes else request.principal.name


def _workers(deps: ApiDeps) -> Claims:
    if deps.workers is None:
        raise ConflictError(
            "this server has no queue that workers can claim commands from", code="workers_elsewhere"
        )
    return deps.workers


_REF = Parameter("ref", "The reference: noetl://execution/…/result/….")
_STORE = Parameter("store", "The tier that the reference names; without it, the default one.")
_TIER = Parameter("wish", "The tier that the playbook asks for.")


def _post(path: str, name: str, about: str, endpoint: Endpoint, body: Any, answer: Any) -> Route:
    return Route(
        "POST", path, name, about, "worker", endpoint, {200: answer}, "workers", body=body, refuses=(409,)
    )


ROUTES: tuple[Route, ...] = (
    _post(
        "/api/worker/pool/register",
        "registerWorker",
        "Say that a worker is there, and whose commands it takes. Again is the same.",
        register,
        bodies.WorkerBody,
        bodies.WorkerAnswer,
    ),
    _post(
        "/api/worker/pool/heartbeat",
        "workerHeartbeat",
        "Say that a worker lives.",
        heartbeat,
        bodies.WorkerNameBody,
        bodies.WorkerAnswer,
    ),
    _post(
        "/api/worker/pool/deregister",
        "deregisterWorker",
        "Say that a worker ends. What it has is given to others, at once.",
        deregister,
        bodies.WorkerNameBody,
        bodies.WorkersAnswer,
    ),
    Route(
        "GET",
        "/api/worker/pools",
        "listWorkers",
        "Workers that have registered, with what they have.",
        "read",
        list_all,
        {200: bodies.WorkersAnswer},
        "workers",
    ),
    _post(
        "/api/commands/claim",
        "claimCommands",
        "Commands of a worker's pool, leased to it; none when nothing waits, nor comes within the seconds of `wait`.",
        claim,
        bodies.ClaimBody,
        bodies.ClaimedAnswer,
    ),
    Route(
        "POST",
        "/api/commands/{event_id}/claim",
        "claimCommand",
        "One command by its name, <execution_id>:<command_id>. 409 says when to try again; 410 that it is over.",
        "worker",
        claim_one,
        {200: bodies.ClaimOneAnswer},
        "workers",
        body=bodies.ClaimOneBody,
        refuses=(409, 410),
    ),
    _post(
        "/api/commands/give-back",
        "giveBackCommand",
        "Return a claimed command, so that another worker runs it.",
        give_back,
        bodies.GiveBackBody,
        bodies.StoredAnswer,
    ),
    Route(
        "GET",
        "/api/programs/{program}",
        "getProgram",
        "A compiled program by its hash, as workers read it.",
        "worker",
        get_program,
        {200: dict[str, Any]},
        "workers",
    ),
    Route(
        "GET",
        "/api/result/resolve",
        "resolveResult",
        "The bytes behind a reference, as they are kept.",
        "worker",
        get_object,
        {200: Any},
        "workers",
        media=BYTES,
        query=(_REF, _STORE),
        refuses=(404, 410),
        of_command=True,
    ),
    Route(
        "PUT",
        "/api/result/{execution_id}/{name+}",
        "putResult",
        "Keep a value that is too large to travel, under the execution of the command that gave it.",
        "worker",
        put_object,
        {200: bodies.KeptResult},
        "workers",
        query=(_TIER,),
        any_body=True,
        takes=BYTES,
        refuses=(409,),
        of_command=True,
    ),
)
