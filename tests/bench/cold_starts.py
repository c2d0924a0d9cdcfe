"""What each function of a deployment loads when it starts cold, in a Python that sees its layers and nothing else.

Usage: python -m tests.bench.cold_starts [--page]   (from the repository's root; `make cold-starts`)

Lambda imports the handler, which reads the settings; connections are opened by the first invocation. Modules are those of no standard
library: they are the same on every machine, and tests/infra/test_cold_starts.py holds them to the budgets of docs/deployment-cost.md.
``--page`` writes the table there.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from infra.layer_build import Target, build_layer

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "deployment-cost.md"
TRIES = 5
STEP = 25
"""A budget is the next multiple of this."""
HEAD = "| function | modules | at most | processor time |\n|---|---|---|---|\n"
ROW = re.compile(r"^\| `([a-z]+)` \| (\d+) \| (\d+) \| (\d+) ms \|$", re.MULTILINE)
_TABLE = re.compile(r"^\| function \| modules \|.*?(?=^$)", re.MULTILINE | re.DOTALL)
PROBE = """
import json, os, runpy, sys
before = os.times()
runpy.run_path(sys.argv[1])
after = os.times()
names = {name for name in sys.modules if name.partition(".")[0] not in sys.stdlib_module_names}
spent = after.user + after.system - before.user - before.system
print(json.dumps({"modules": len(names - {"__main__"}), "seconds": spent}))
"""
SETTINGS = {
    "NOETL_ENV": "test",
    "NOETL_RESULTS_BUCKET": "results",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "NOETL_QUEUES": '{"http": "io"}',
    "NOETL_QUEUE_PREFIX": "http://127.0.0.1:1/000000000000/noetl-test-commands-",
    "NOETL_EVENTS_QUEUE_URL": "http://127.0.0.1:1/000000000000/noetl-test-events.fifo",
    "NOETL_TIMERS_QUEUE_URL": "http://127.0.0.1:1/000000000000/noetl-test-timers",
    "NOETL_TOKEN_SECRET_ARN": "tokens",
}
"""What functions need to start. The worker is one of light kinds."""


@dataclass(frozen=True)
class ColdStart:
    """``modules``: imported ones that are of no standard library; ``milliseconds``: of processor time, the least of some tries."""

    function: str
    modules: int
    milliseconds: int


def functions() -> list[str]:
    return sorted(file.parent.name for file in (ROOT / "functions").glob("*/handler.py"))


def measure(function: str, tries: int = 1) -> ColdStart:
    """Import the handler of a function as often as this, each time in a process of its own."""
    layers = [str(build_layer(name, Target.of_host()) / "python") for name in ("core", "deps")]
    worker = {"NOETL_WORKER": "io"} if function == "worker" else {}
    found = []
    for _ in range(tries):
        done = subprocess.run(
            [sys.executable, "-S", "-c", PROBE, str(ROOT / "functions" / function / "handler.py")],
            env={**SETTINGS, **worker, "PYTHONPATH": ":".join(layers), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"the function {function} does not start:\n{done.stderr}")
        found.append(json.loads(done.stdout.splitlines()[-1]))
    least = min(one["seconds"] for one in found)
    return ColdStart(function, found[0]["modules"], round(1000 * least))


def budgets() -> dict[str, int]:
    """Return the most modules that each function may import, from the page."""
    return {name: int(most) for name, _, most, _ in ROW.findall(PAGE.read_text("utf-8"))}


def table(starts: Sequence[ColdStart]) -> str:
    rows = (
        f"| `{one.function}` | {one.modules} | {-(-one.modules // STEP) * STEP} | {one.milliseconds} ms |\n"
        for one in starts
    )
    return HEAD + "".join(rows)


def main(arguments: Sequence[str]) -> None:
    text = table([measure(function, TRIES) for function in functions()])
    print(text)
    if "--page" in arguments:
        PAGE.write_text(_TABLE.sub(lambda _: text, PAGE.read_text("utf-8"), count=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
