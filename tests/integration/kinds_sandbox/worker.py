"""A worker of a test, in a process of its own: as root or as an ordinary user, with the layers that the test names.

Reads one JSON object (``layers``: those to use, or null for the machine's own; ``calls``: tasks; ``settings``) and prints a JSON
list of results. ``TARGET`` in a task's input becomes what it is to attack: a home folder with secrets, a server on a socket in it, a
process of the same user with a secret in its environment, and another task with a file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from noetl.domain.errors import NoetlError
from noetl.domain.kinds import TaskContext, TaskSettings
from noetl.kinds.registry import default_registry
from noetl.kinds.sandbox import process
from noetl.kinds.sandbox.layers import Layers

SECRETS = (
    *("postgres.secret", "credentials.key", "commands.key", "token", "tokens.json", "contexts.json"),
    *("cache/programs/p.json", "cache/results/r", "results/1/r"),
)


def context(settings: TaskSettings, call: dict[str, Any], number: int) -> TaskContext:
    return TaskContext(
        execution_id=number,
        step="s",
        task="t",
        attempt=1,
        idempotency_key="k",
        timeout=call.get("timeout", 120.0),
        settings=settings,
        credential=None,  # type: ignore[arg-type]
        input=call.get("input", {}),
        log=call.get("log", lambda line: None),
    )


def run(call: dict[str, Any], settings: TaskSettings, number: int) -> dict[str, Any]:
    try:
        return {
            "result": default_registry()
            .run(call["kind"], call["params"], context(settings, call, number))
            .result
        }
    except NoetlError as error:
        return {"error": str(error), "code": error.code}


class Target:
    """Everything that is to stay out of reach, owned by this process's user."""

    def __init__(self, ground: Path, settings: TaskSettings) -> None:
        self.home = ground / "home"
        for name in SECRETS:
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"canary of {name}")
        keys = ground / "user" / ".aws" / "credentials"
        keys.parent.mkdir(parents=True)
        keys.write_text("canary of AWS")
        library = ground / "library" / "installed.py"
        place = self.home / "postgres" / ".s"
        place.parent.mkdir()
        self._servers = [self._listen(str(place))]
        abstract = f"noetl-test-{secrets.token_hex(8)}"
        self._servers.append(self._listen("\0" + abstract))
        self._victim = subprocess.Popen(
            ["/bin/sleep", "3600"], env={"CANARY": "canary of the environment"}, cwd=self.home
        )
        self.mark = f"noetl-test-{secrets.token_hex(8)}"
        other = self._start_other(settings)
        self.about: dict[str, Any] = {
            "home": str(self.home),
            "secrets": SECRETS,
            "keys": str(keys),
            "library": str(library),
            "socket": str(place),
            "abstract": abstract,
            "victim": self._victim.pid,
            "worker": os.getpid(),
            "other": other,
            "other_pid": _works_in(str(Path(other).parent)),
            "mark": self.mark,
        }

    def _listen(self, address: str) -> socket.socket:
        made = socket.socket(socket.AF_UNIX)
        made.bind(address)
        made.listen()
        return made

    def _start_other(self, settings: TaskSettings) -> str:
        """A task that stays in the middle of its work, and its file."""
        lines: list[str] = []
        ready = threading.Event()

        def log(line: str) -> None:
            lines.append(line)
            ready.set()

        code = (
            "import os, time\nopen('private', 'w').write('canary of another task')\n"
            "print(os.getcwd() + '/private', flush=True)\ntime.sleep(3600)"
        )
        call = {"kind": "python", "params": {"code": code}, "timeout": 3600.0, "log": log}
        threading.Thread(target=run, args=(call, settings, 1), daemon=True).start()
        ready.wait()
        return lines[0]

    def left(self) -> list[str]:
        """What tasks left where others would find it; removed now."""
        found = [path for path in (Path("/tmp", self.mark), Path("/dev/shm", self.mark)) if path.exists()]
        for path in found:
            path.unlink()
        return [str(path.parent) for path in found]

    def close(self) -> None:
        self._victim.kill()
        self._victim.wait()


def _works_in(folder: str) -> int:
    """The number, as this machine counts, of the process that was started last in ``folder``; 0 where none may be looked into."""
    found = [0]
    for place in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if place.name.isdigit() and str((place / "cwd").readlink()) == folder:
                found.append(int(place.name))
    return max(found)


def main() -> None:
    order = json.load(sys.stdin)
    if order["layers"] is not None:
        forced = Layers(**order["layers"])
        process.layers = lambda: forced
    ground = Path(order["ground"])
    settings = TaskSettings(hidden_dirs=(str(ground / "home"),), **order["settings"])
    settings = dataclasses.replace(
        settings,
        data_dirs=(str(ground / "playbooks"), *settings.data_dirs),
        task_folders=tuple(settings.task_folders),
    )
    target = Target(ground, settings) if order["target"] else None
    assert target is None or target.about["other_pid"] or not process.layers().confines_files
    results = []
    for number, call in enumerate(order["calls"], 2):
        if target is not None:
            text = json.dumps(call).replace('"TARGET"', json.dumps(target.about))
            call = json.loads(text)
        results.append(run(call, settings, number))
        results[-1]["left"] = target.left() if target is not None else []
    print(json.dumps(results), flush=True)
    if target is not None:
        target.close()
    os._exit(0)  # the other task never ends


if __name__ == "__main__":
    main()
