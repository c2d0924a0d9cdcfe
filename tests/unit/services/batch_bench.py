"""A worker over queues in memory, with tools that a test writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from noetl.adapters.memory.results import MemoryResultStore
from noetl.domain.capability_tokens import KeyRing, grant
from noetl.domain.commands import Command, FrozenScope, LoopSlice
from noetl.domain.errors import NotFoundError, TaskError
from noetl.domain.events import Event
from noetl.domain.kinds import Credential, KindSpec, ParamProblem, TaskContext, TaskResult
from noetl.domain.messages import VERSION, Message
from noetl.dsl.compiler import compile_playbook
from noetl.ports.queue import Delivery, Outgoing
from noetl.services.messaging.large_messages import pack, unpack
from noetl.services.worker.batch_deps import BatchDeps, CommandBatchResult
from noetl.services.worker.consume_commands import work_batch
from noetl.services.worker.worker_deps import WorkerDeps
from tests.doubles.queue import MemoryQueue

RING = KeyRing.of(["a key that is long enough"])
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: { name: t }\nworkflow:\n"
ONE = HEAD + "  - step: s\n    tool: { kind: tool, v: '{{ workload.v }}' }\n"
LOOP = (
    HEAD
    + "  - step: s\n    loop: { in: '{{ [1] }}', iterator: x, mode: parallel }\n    tool: { kind: tool, v: '{{ x }}' }\n"
)
Tool = Callable[[dict[str, Any], TaskContext], Any]


class Kinds:
    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    def names(self) -> tuple[str, ...]:
        return ("tool",)

    def spec(self, name: str) -> KindSpec:
        return KindSpec(name, "A tool.", "io", default_timeout=33.0)

    def check(self, name: str, params: Any) -> list[ParamProblem]:
        return []

    def sql_problem(self, text: str) -> tuple[str, str | None, int] | None:
        return None

    def sql_escapes(self, text: str) -> tuple[()]:
        return ()

    def sql_lists(self, text: str) -> tuple[()]:
        return ()

    def schema(self, name: str) -> dict[str, Any]:
        return {"type": "object"}

    def run(self, name: str, raw_params: Any, context: TaskContext) -> TaskResult:
        return TaskResult(self.tool(dict(raw_params), context))


class NoSecrets:
    def get(self, name: str, execution_id: int) -> Credential:
        raise TaskError(name)


class Sending(MemoryQueue):
    """The events queue, with what a real one does wrong. ``refuse`` says which of a request's messages it does not take."""

    def __init__(self) -> None:
        super().__init__(fifo=True)
        self.requests: list[list[Outgoing]] = []
        self.refuse: Callable[[Sequence[Outgoing]], Sequence[int]] = lambda messages: []

    def send(self, messages: Sequence[Outgoing]) -> Sequence[int]:
        refused = set(self.refuse(messages))
        self.requests.append(list(messages))
        super().send([message for place, message in enumerate(messages) if place not in refused])
        return sorted(refused)


class Bench:
    """One worker over queues in memory. ``left`` are the seconds it has."""

    def __init__(
        self, body: str = ONE, tool: Tool = lambda params, context: params["v"], **settings: Any
    ) -> None:
        self.program = compile_playbook(body, source_name="t.yaml", kinds=Kinds(tool)).program
        self.results = MemoryResultStore()
        self.commands, self.events = MemoryQueue(visibility=5400), Sending()
        self.logged: list[str] = []
        self.left = [1e9]
        worker = {
            "programs": self.programs,
            "registry": Kinds(tool),
            "results": self.results,
            "credentials": NoSecrets(),
            "log": self.logged.append,
            "deadline": lambda: self.left[0],
        }
        known = {name: settings.pop(name) for name in list(settings) if name in WorkerDeps.__slots__}
        self.deps = BatchDeps(
            worker=WorkerDeps(**worker | known),
            commands=self.commands,
            events=self.events,
            slots=settings.pop("slots", {"io": 10, "python": 1}),
            **settings,
        )

    def programs(self, hash_: str) -> Any:
        if hash_ != self.program.hash:
            raise NotFoundError(f"no program {hash_}", code="program_not_found")
        return self.program

    def command(self, number: int = 1, **fields: Any) -> Command:
        known = {"pool": "io", "scope": FrozenScope(workload={"v": number}), "command_id": "1", "run": 1}
        return Command(100 + number, step="s", program=self.program.hash, **known | fields)

    def chunk(self, items: list[Any], **fields: Any) -> Command:
        piece = LoopSlice(1, 0, len(items), len(items), "x", "parallel", items=items)
        return msgspec.structs.replace(self.command(**fields), command_id="1.r1.0", loop=piece)

    def put(self, *commands: Command, limit: int = 1 << 20) -> list[Delivery]:
        texts = [
            pack(Message(VERSION, token=grant(one, RING), command=one), self.results, limit=limit)
            for one in commands
        ]
        return self.put_texts(*texts)

    def put_texts(self, *texts: str) -> list[Delivery]:
        self.commands.send([Outgoing(text) for text in texts])
        return list(self.commands.receive(10))

    def work(self, deliveries: list[Delivery]) -> CommandBatchResult:
        """As a shell does it: what is not given back is acknowledged."""
        worked = work_batch(deliveries, self.deps)
        self.commands.ack([one for one in deliveries if one.message_id not in worked.give_back])
        return worked

    def said(self) -> list[tuple[str, Event]]:
        """Token and event of each message on the engine's queue."""
        found = []
        while got := self.events.receive(10):
            for one in got:
                message = unpack(one.body, self.results)
                assert message.event is not None
                found.append((message.token, message.event))
            self.events.ack(got)
        return found

    def again(self) -> list[Delivery]:
        """What is visible in the command queue now."""
        return list(self.commands.receive(10))
