"""How fast what users run is: every workload with ``python``, ``http``, ``postgres`` and a no-op, in this process and through ``noetl serve``,
beside DBOS and Restate on the same machine in the same run. Compare ratios of one run; figures of two machines say little.

Usage: python -m tests.bench.run [--quick] [--json] [--record] [--kinds python,http] [--peers PYTHON] [--restate FOLDER]

``--peers``: an interpreter that has what peer-requirements.txt lists; ``--restate``: where npm has put its server. ``--quick``: a little
of everything, to see that it runs; its figures mean nothing. ``--record``: append the run to docs/speed.json.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

import psycopg

from tests.bench.lifeline import ending
from tests.bench.playbooks import KINDS
from tests.bench.speed import page, peers, rest
from tests.bench.speed.figures import Book, Figure, about, lines, text
from tests.bench.speed.noetl import QUICK, InProcess, Sizes, in_process, serve, step_server


def main() -> int:
    options = arguments()
    sizes, kinds = QUICK if options.quick else Sizes(), options.kinds.split(",")
    book = Book(about())

    def tell(figure: Figure) -> None:
        print(lines(book, figure) if options.json else text(figure), flush=True)

    book.tell = tell
    if not book.about["quiet"]:
        note(f"The machine is not quiet (load {book.about['load']}): the figures are no measure.")
    with (
        tempfile.TemporaryDirectory(prefix="noetl-bench-", ignore_cleanup_errors=True) as folder,
        ending(home_in(Path(folder))),
        step_server() as url,
    ):
        home = home_in(Path(folder))
        book.guarded("engine-alone", lambda: rest.engine_alone(book, options.quick))
        book.guarded("import", lambda: rest.imports(book, options.quick))
        with in_process(home) as runtime:
            dsn = runtime.opened.dsn
            book.about["postgres"] = postgres(dsn)
            book.guarded("ceiling", lambda: rest.ceiling(book, dsn, options.quick))
            for kind in kinds:
                InProcess(runtime, book, sizes, url).measure(kind)
            if options.peers:
                book.guarded("dbos", partial(peers.dbos, book, options.peers, dsn, sizes))
        book.guarded("serve", partial(serve, home, book, sizes, kinds, url))
        if options.peers:
            restate(book, options, Path(folder) / "restate", sizes)
        book.guarded("run-hello", lambda: rest.start_up(book, home, options.quick))
    for name, problem in book.failed.items():
        note(f"{name} failed: {problem}")
    if options.record and not book.failed:
        page.append(book.record())
        page.main()
    return 1 if book.failed else 0


def home_in(folder: Path) -> Path:
    """The home folder in a folder; Postgres, which does not run as root, may look into both."""
    home = folder / "home"
    for one in (folder, home):
        one.mkdir(exist_ok=True)
        one.chmod(0o755)
    return home


def restate(book: Book, options: argparse.Namespace, home: Path, sizes: Sizes) -> None:
    binary = peers.restate_binary(Path(options.restate)) if options.restate else None
    if binary is None:
        note(
            "Restate is left out: its server comes from npm, and there is none (install Node, then `make bench`)."
        )
        return
    home.mkdir()
    book.guarded("restate", lambda: peers.restate(book, options.peers, binary, home, sizes))


def postgres(dsn: str) -> str:
    """Version and durability of the server."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(
            "select current_setting('server_version'), current_setting('fsync'), current_setting('synchronous_commit')"
        ).fetchone()
    assert row is not None
    return f"Postgres {row[0]} (fsync {row[1]}, synchronous_commit {row[2]})"


def note(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast what users run is.")
    parser.add_argument("--quick", action="store_true", help="see that everything runs")
    parser.add_argument("--json", action="store_true", help="a JSON line per figure")
    parser.add_argument("--record", action="store_true", help="append the run to docs/speed.json")
    parser.add_argument("--kinds", default=",".join(KINDS), help="kinds of steps, with commas between them")
    parser.add_argument("--peers", help="an interpreter that has what peer-requirements.txt lists")
    parser.add_argument("--restate", help="the folder that npm has installed Restate's server into")
    options = parser.parse_args()
    if unknown := [kind for kind in options.kinds.split(",") if kind not in KINDS]:
        parser.error(f"--kinds names {unknown[0]!r}; there are {', '.join(KINDS)}")
    if options.record and options.quick:
        parser.error("--record keeps figures, and those of --quick mean nothing: leave one of them out")
    return options


if __name__ == "__main__":
    sys.exit(main())
