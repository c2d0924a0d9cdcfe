"""What clients ask for through the public services, in hostile words: starts, pauses, cancels, patches, redrives."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from noetl.domain.errors import InvalidInputError
from noetl.domain.events import Event
from noetl.services.executions import change_execution
from noetl.services.executions.change_execution import ChangeRequest
from noetl.services.executions.redrive_execution import redrive
from noetl.services.executions.start_execution import StartRequest, start_execution
from tests.properties import hostile
from tests.properties.happening import Happening
from tests.properties.laws import law

if TYPE_CHECKING:
    from tests.properties.world import Process, World

EPOCH_MS = 1_800_000_000_000
Word = tuple[int, str, bool]
"""(execution, what it is told, whether the word is for those below it as well)."""


@dataclass
class Root:
    """An execution that a client wants, and then speaks of. ``execution_id`` 0: it was not accepted (yet)."""

    world: World
    path: str
    payload: dict[str, Any]
    number: int
    principal: str = ""
    key: str = ""
    execution_id: int = 0
    tried: bool = False
    drawn: list[int] = field(default_factory=list)
    """The millisecond of its id, by the clock of whoever was asked first; clients that draw one id share this."""

    def start(self, process: Process) -> Sequence[Event]:
        """Ask for it; asked again, it gives the same execution."""
        driver = process.driver
        wish = StartRequest(
            self.payload,
            self.path,
            principal=self.principal,
            key=self.key,
            identity=[self.path, self.payload],
        )
        again, self.tried = self.tried, True
        if not self.drawn:
            self.drawn.append(EPOCH_MS + self.number + int(process.skew * 1000))
        started = start_execution(
            self.world.program(self.path),
            wish,
            driver.deps.store,
            owner=process.owner,
            now_ms=self.drawn[0],
            random_bits=self.number * 7919 + 1,
            again=again,
        )
        self.execution_id = started.execution_id
        check_own_start(self)
        return () if started.event is None else (started.event,)


@law("starts-get-their-own-execution", "call")
def check_own_start(root: Root) -> None:
    """Every start is answered with an execution of the requested playbook, even when another start draws the same id."""
    info = root.world.store.info(root.execution_id)
    path = None if info is None else info.path
    assert path == root.path, f"the start of {root.path} was answered with {root.execution_id} of {path}"


class Client:
    """Speaks of one execution; ``rng`` chooses the words, and how often a request is repeated. ``said``: pauses and cancels, accepted or not."""

    def __init__(self, root: Root, rng: random.Random, rude: float) -> None:
        self.root = root
        self.rng = rng
        self.rude = rude
        self.said: list[Word] = []
        self._asked = 0

    def asked(self, process: Process, unique: str) -> ChangeRequest:
        rude = self.rng.random() < self.rude
        principal, reason = (hostile.text(self.rng), hostile.text(self.rng)) if rude else ("user:ada", "why")
        return ChangeRequest(principal, unique, process.owner, reason)

    def ask(
        self, what: str, after: int = 0, execution_id: int | None = None, *, below: bool = True
    ) -> Happening:
        """``what``: start, pause, resume, cancel, patch or redrive; ``execution_id``: of another member of the family.

        ``below``: the word is for the executions below it as well.
        """
        self._asked += 1
        unique = f"{what} {self._asked}"
        if self.rng.random() < self.rude:
            unique += hostile.text(self.rng)
        patch = {hostile.name(self.rng): hostile.value(self.rng)}

        def through(process: Process) -> Sequence[Event]:
            root, store = self.root, process.driver.deps.store
            if what == "start":
                return root.start(process)
            target = execution_id or root.execution_id
            if what in ("pause", "cancel") and (target, what, below) not in self.said:
                self.said.append((target, what, below))
            if what == "patch":
                asked = self.asked(process, unique)
                return (change_execution.patch_context(store, target, asked, patch),)
            try:
                return (self._change(process, what, target, self.asked(process, unique), below),)
            except InvalidInputError:  # Words that are refused; the client means it all the same.
                plain = ChangeRequest("user:ada", unique, process.owner)
                return (self._change(process, what, target, plain, below),)

        return Happening(None, after, door=through, what=f"{what} {self.root.path}")

    def _change(self, process: Process, what: str, target: int, asked: ChangeRequest, below: bool) -> Event:
        store = process.driver.deps.store
        if what == "redrive":
            return redrive(store, self.root.world.programs, target, asked)
        change = {
            "pause": change_execution.pause,
            "resume": change_execution.resume,
            "cancel": change_execution.cancel,
        }[what]
        return change(store, target, asked, cascade=below)
