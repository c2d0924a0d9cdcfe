"""Runs inside the functions of the emulator, where the end-to-end tests have put it: tool kinds that may answer from a script.

While a script server says where it is (a file with its address), every call of a kind asks it first. It answers with the reply of
the conformance case that the execution plays, or leaves the call to the real kind. What a reply means is ``noetl.testing.scripted``'s
to say, as in local runs; that module is not in a layer, so it is loaded from the checkout.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import json
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

REGISTRY = "noetl.kinds.registry"
SECONDS = 120


def install(scripted: str, address: str) -> None:
    """Have the registry of kinds ask. ``scripted``: the file of ``noetl.testing.scripted``; ``address``: the file with the server's."""
    sys.meta_path.insert(0, Finder(Path(scripted), Path(address)))


class Finder(importlib.abc.MetaPathFinder):
    """Sees the registry's import, once."""

    def __init__(self, scripted: Path, address: Path) -> None:
        self.scripted = scripted
        self.address = address

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != REGISTRY:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = Loader(spec.loader, self)
        return spec


class Loader(importlib.abc.Loader):
    """Imports the registry and changes how it calls a kind."""

    def __init__(self, real: importlib.abc.Loader, finder: Finder) -> None:
        self.real = real
        self.finder = finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.real.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self.real.exec_module(module)
        call_kind = module.Registry.run
        scripted = functools.cache(functools.partial(load, self.finder.scripted))

        def run(registry: Any, name: str, raw_params: Mapping[str, Any], context: Any) -> Any:
            try:
                server = self.finder.address.read_text()
            except FileNotFoundError:
                return call_kind(registry, name, raw_params, context)
            script = scripted()
            reply = ask(server, script.call_of(name, raw_params, context), context)
            if reply is None:
                return call_kind(registry, name, raw_params, context)
            registry._load(name).params.parse(raw_params)
            return script.answer(reply)

        module.Registry.run = run


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
        "told": call.told,
    }
    request = urllib.request.Request(server, data=codec.encode(asked), method="POST")
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        found = json.loads(answer.read())
    if "refused" in found:
        raise TaskError(found["refused"], code="unscripted")
    return found["reply"]
