"""Runs inside the functions of the emulator, where the end-to-end tests have put it: tool kinds that may answer from a script.

While a script server says where it is (a file with its address), every call of a kind asks it first. It answers with the reply of
the conformance case that the execution plays, or leaves the call to the real kind. What a reply means is ``noetl.testing.scripted``'s
to say, as in local runs; that module is not in a layer, so it is loaded from the checkout.

A queue may deliver a command twice, and then its calls are made twice. So each call says which one of its command it is.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import json
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

REGISTRY = "noetl.kinds.registry"
COMMANDS = "noetl.services.worker.run_command"
SECONDS = 600
"""More than the server holds an answer back for."""


def install(scripted: str, address: str) -> None:
    """Have the registry of kinds ask. ``scripted``: the file of ``noetl.testing.scripted``; ``address``: the file with the server's."""
    changes = {REGISTRY: functools.partial(asking, Path(scripted), Path(address)), COMMANDS: numbering}
    sys.meta_path.insert(0, Finder(changes))


class Finder(importlib.abc.MetaPathFinder):
    """Sees the import of each module that is changed, once."""

    def __init__(self, changes: dict[str, Callable[[Any], None]]) -> None:
        self.changes = changes

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = self.changes.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, change)
        return spec


class Loader(importlib.abc.Loader):
    """Imports a module and changes it."""

    def __init__(self, real: importlib.abc.Loader, change: Callable[[Any], None]) -> None:
        self.real = real
        self.change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        self.change(module)


class Running(threading.local):
    """The command that a thread runs, and how often it has made each of its calls."""

    command: Any = None
    calls: Counter[tuple[str, str, int | None]]


running = Running()


def numbering(module: Any) -> None:
    """Have a thread know the command that it runs."""
    run_command = module.run_command

    def run(command: Any, *rest: Any) -> Any:
        running.command, running.calls = command, Counter()
        try:
            return run_command(command, *rest)
        finally:
            running.command = None

    module.run_command = run


def asking(source: Path, address: Path, module: Any) -> None:
    """Have the registry ask before it calls a kind."""
    call_kind = module.Registry.run
    scripted = functools.cache(functools.partial(load, source))

    def run(registry: Any, name: str, raw_params: Mapping[str, Any], context: Any) -> Any:
        try:
            server = address.read_text()
        except FileNotFoundError:
            return call_kind(registry, name, raw_params, context)
        script = scripted()
        reply = ask(server, script.call_of(name, raw_params, context), context)
        if reply is None:
            return call_kind(registry, name, raw_params, context)
        registry._load(name).params.parse(raw_params)
        return script.answer(reply)

    module.Registry.run = run


def number(call: Any) -> list[Any] | None:
    """Which call of its command this is: the same one when the command is delivered again."""
    command = running.command
    if command is None:
        return None
    place = (call.step, call.task, call.index)
    running.calls[place] += 1
    return [command.command_id, command.attempt, command.turn, *place, running.calls[place]]


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("noetl.testing.scripted", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def ask(server: str, call: Any, context: Any) -> Any:
    """The reply to a call, or None. Raises TaskError when the script has none for a kind that cannot be called here."""
    from noetl.domain import codec
    from noetl.domain.errors import TaskError

    asked = {
        "execution_id": str(context.execution_id),
        "kind": call.kind,
        "step": call.step,
        "task": call.task,
        "index": call.index,
        "told": call.params,
        "number": number(call),
    }
    request = urllib.request.Request(server, data=codec.encode(asked), method="POST")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found = json.loads(answer.read())
    if "refused" in found:
        raise TaskError(found["refused"], code="unscripted")
    return found["reply"]
