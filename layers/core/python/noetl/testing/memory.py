"""A backend in memory with virtual time, and a worker in the driver's thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from noetl.adapters.memory import MemoryExecutionStore, MemoryResultStore
from noetl.adapters.memory.task_cache import MemoryTaskCache
from noetl.domain.commands import Command
from noetl.domain.errors import TaskError
from noetl.domain.events import Event
from noetl.domain.kinds import Credential
from noetl.domain.state import decode_state
from noetl.ports.executions.execution_store import ExecutionStore
from noetl.runtime.programs import Programs
from noetl.services.callbacks.callback_keys import callback_key
from noetl.services.worker.run_command import run_command
from noetl.services.worker.worker_deps import WorkerDeps
from noetl.testing.callbacks import BASE, RING
from noetl.testing.driver import EPOCH, VirtualClock
from noetl.testing.play_case import Backend
from noetl.testing.scripted import ScriptedRegistry


@dataclass
class MemoryBackend:
    """A store of its own, whose time is virtual."""

    tolerance = 0.001
    """How exactly virtual time is kept, in seconds."""

    time: VirtualClock = field(default_factory=VirtualClock)
    results: MemoryResultStore = field(default_factory=MemoryResultStore)

    def __post_init__(self) -> None:
        self.store: ExecutionStore = MemoryExecutionStore(self.time.epoch)


def is_gone(store: ExecutionStore, execution_id: int, run: int) -> bool:
    """Return whether no command waits for a step run (any more)."""
    info = store.info(execution_id)
    return info is None or run not in decode_state(info.state).tokens


class NoCredentials:
    """A place without secrets: every name is refused."""

    def get(self, name: str, execution_id: int) -> Credential:
        raise TaskError(f"there is no credential {name}", kind="auth", code="credential_not_found")


@contextmanager
def real_worker(
    tools: ScriptedRegistry, backend: Backend, programs: Programs
) -> Iterator[Callable[..., None]]:
    """Commands run as a worker runs them, their calls answered by ``tools``."""
    deps = WorkerDeps(
        programs=programs,
        registry=tools,
        results=backend.results,
        credentials=NoCredentials(),
        clock=lambda: backend.time.now() + tools.spent,
        now=lambda: EPOCH + backend.time.now() + tools.spent,
        chance=lambda: 0.0,
        given_up=lambda execution_id, run: is_gone(backend.store, execution_id, run),
        callback_key=lambda command: callback_key(command, programs, RING),
        callback_base=BASE,
        cache=MemoryTaskCache(),
    )

    def run(command: Command, emit: Callable[[Event], None]) -> None:
        tools.spent = 0.0
        run_command(command, deps, emit)

    yield run
