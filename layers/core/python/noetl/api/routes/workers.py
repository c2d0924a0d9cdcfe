"""Workers that fetch their commands over HTTP."""

from __future__ import annotations

from typing import Any

from noetl.api import runtime_bodies as bodies
from noetl.api.endpoints import workers
from noetl.api.exchange import BYTES
from noetl.api.routes.shape import Endpoint, Parameter, Route

_REF = Parameter("ref", "The reference: noetl://execution/…/result/….")
_STORE = Parameter("store", "The tier that the reference names; without it, the default one.")
_WISH = Parameter("wish", "The tier that the playbook asks for.")


def _post(path: str, name: str, about: str, endpoint: Endpoint, body: Any, answer: Any) -> Route:
    return Route(
        "POST", path, name, about, "worker", endpoint, {200: answer}, "workers", body=body, refuses=(409,)
    )


ROUTES: tuple[Route, ...] = (
    _post(
        "/api/worker/pool/register",
        "registerWorker",
        "Say that a worker is there, and whose commands it takes. Again is the same.",
        workers.register,
        bodies.WorkerBody,
        bodies.WorkerAnswer,
    ),
    _post(
        "/api/worker/pool/heartbeat",
        "workerHeartbeat",
        "Say that a worker lives.",
        workers.heartbeat,
        bodies.WorkerNameBody,
        bodies.WorkerAnswer,
    ),
    _post(
        "/api/worker/pool/deregister",
        "deregisterWorker",
        "Say that a worker ends. What it has is given to others, at once.",
        workers.deregister,
        bodies.WorkerNameBody,
        bodies.WorkersAnswer,
    ),
    Route(
        "GET",
        "/api/worker/pools",
        "listWorkers",
        "Workers that have registered, with what they have.",
        "read",
        workers.list_all,
        {200: bodies.WorkersAnswer},
        "workers",
    ),
    _post(
        "/api/commands/claim",
        "claimCommands",
        "Commands of a worker's pool, leased to it; none when nothing waits.",
        workers.claim,
        bodies.ClaimBody,
        bodies.ClaimedAnswer,
    ),
    Route(
        "POST",
        "/api/commands/{event_id}/claim",
        "claimCommand",
        "One command by its name, <execution_id>:<command_id>. 409 tells when to try again; 410 that it is over.",
        "worker",
        workers.claim_one,
        {200: bodies.ClaimOneAnswer},
        "workers",
        body=bodies.ClaimOneBody,
        refuses=(409, 410),
    ),
    _post(
        "/api/commands/give-back",
        "giveBackCommand",
        "A command that was claimed is for somebody else.",
        workers.give_back,
        bodies.GiveBackBody,
        bodies.StoredAnswer,
    ),
    Route(
        "GET",
        "/api/programs/{program}",
        "getProgram",
        "A compiled program by its hash, as workers read it.",
        "worker",
        workers.get_program,
        {200: dict[str, Any]},
        "workers",
    ),
    Route(
        "GET",
        "/api/result/resolve",
        "resolveResult",
        "The bytes behind a reference, as they are kept.",
        "worker",
        workers.get_object,
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
        workers.put_object,
        {200: bodies.KeptResult},
        "workers",
        query=(_WISH,),
        any_body=True,
        takes=BYTES,
        refuses=(409,),
        of_command=True,
    ),
)
