"""Play one story again, or several: ``python -m tests.properties.whole.replay 17``, or ``… 0 --past 500``."""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

from noetl.adapters.embedded.server import open_embedded
from noetl.adapters.postgres.migrations import migrate
from tests.properties.whole.laws import check_everything
from tests.properties.whole.served import served
from tests.properties.whole.story import Story, play

SHAPE = ("programs", "starts", "changes", "probes", "wrong", "commands", "rude")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("--past", type=int)
    parser.add_argument("--shape", nargs=len(SHAPE), type=float, metavar=SHAPE)
    asked = parser.parse_args()
    shape = {name: int(value) for name, value in zip(SHAPE[:-1], asked.shape or (), strict=False)}
    if asked.shape:
        shape["rude"] = asked.shape[-1]
    roots = executions = failed = 0
    stuck: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="noetl-whole-", ignore_cleanup_errors=True) as folder:
        database = open_embedded(Path(folder) / "pg", {"fsync": "off"})
        try:
            migrate(database.dsn())
            with served(database.dsn(), Path(folder) / "home") as place:
                for seed in range(asked.first, asked.past or asked.first + 1):
                    story = replace(Story(seed), **shape)
                    began, used = time.monotonic(), time.process_time()
                    try:
                        told = play(story, place)
                    except Exception as error:
                        failed += 1
                        print(f"{seed}: FAILED {type(error).__name__}: {str(error)[:6000]}", flush=True)
                        print(f"again: python -m tests.properties.whole.replay {story.words}", flush=True)
                        continue
                    roots += len(told.roots)
                    executions += told.executions
                    stuck += told.stuck
                    ends += told.ends
                    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
                    took = (
                        f"{time.monotonic() - began:.1f} s, {time.process_time() - used:.1f} s of processor"
                    )
                    print(
                        f"{seed}: {len(told.roots)}/{told.executions} executions, {took}, {size} MB",
                        flush=True,
                    )
                print(
                    f"{failed} failed; {roots} started, {executions} altogether: {dict(ends)}; {dict(stuck)}"
                )
                print(f"answers: {dict(place.answers.most_common())}")
                print(f"everything: {check_everything(place)}")
        finally:
            database.stop()


if __name__ == "__main__":
    main()
