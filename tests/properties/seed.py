"""Replay one seed: ``python -m tests.properties.seed shape 17``, or several: ``shape 0 200``; also ``--postgres``: scenes, removals."""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.properties.places import MemoryPlace, PostgresGround
from tests.properties.shapes import Ground, play
from tests.properties.test_simulator import run_limited, run_random, run_redriven, run_removed, run_seed

PLAYS: dict[str, Callable[[int], None]] = {
    "fixed": run_seed,
    "random": run_random,
    "redriven": run_redriven,
    "limited": run_limited,
}
GROUNDED: dict[str, Callable[[int, Ground], None]] = {"shape": play, "removed": run_removed}
"""Those that run over Postgres as well."""


@contextlib.contextmanager
def ground(postgres: bool) -> Iterator[Ground]:
    """Where the worlds keep their executions."""
    if not postgres:
        yield MemoryPlace
        return
    from noetl.adapters.embedded.server import open_embedded
    from noetl.adapters.postgres.migrations import migrate

    with tempfile.TemporaryDirectory(prefix="noetl-seed-") as folder:
        server = open_embedded(Path(folder) / "pg", {"fsync": "off"})
        try:
            migrate(server.dsn())
            made = PostgresGround(server.dsn())
            yield made.place
            made.close()
        finally:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=(*GROUNDED, *PLAYS))
    parser.add_argument("first", type=int)
    parser.add_argument("past", type=int, nargs="?")
    parser.add_argument("--postgres", action="store_true")
    asked = parser.parse_args()
    with ground(asked.postgres) as place:

        def run(seed: int) -> None:
            if asked.kind in GROUNDED:
                GROUNDED[asked.kind](seed, place)
            else:
                PLAYS[asked.kind](seed)

        if asked.past is None:
            run(asked.first)
            return
        began, failed = time.process_time(), 0
        for seed in range(asked.first, asked.past):
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    run(seed)
            except Exception as error:
                failed += 1
                text = " ".join(str(error).split())
                print(f"{seed}: {type(error).__name__}: {text[:300]}", flush=True)
        each = (time.process_time() - began) / max(1, asked.past - asked.first)
        print(f"{failed} of {asked.past - asked.first} failed, {each:.3f} s of processor time each")


if __name__ == "__main__":
    main()
