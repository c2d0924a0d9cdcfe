"""Start of the emulator with additions.

It adds resource types that the emulator lacks, a real Postgres behind RDS, quicker functions, and distributions.

The first argument is this package's folder, the second a JSON file (see ``noetl.local.emulator``):
``runtime_python`` the interpreter of Python functions; ``site`` a site folder of theirs, or null; ``layers`` a folder for unpacked
layers; ``ignored`` a file that gets one JSON line per resource that was accepted and ignored; ``postgres`` ``{host, port}`` of the
server behind RDS; ``grant`` the command that makes a database and its role (request on stdin).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> None:
    """Patch the emulator, then serve until the process gets a signal to stop."""
    config = json.loads(Path(sys.argv[2]).read_text())
    del sys.argv[1:]
    os.umask(0o077)

    import ministack.app
    from noetl_emulator import deployments, distributions, functions, resources, threads

    site = Path(config["site"]) if config["site"] else None
    functions.improve(runtime_python=config["runtime_python"], layers=Path(config["layers"]), site=site)
    resources.register(
        ignored=Path(config["ignored"]), postgres=config["postgres"], grant=tuple(config["grant"])
    )
    deployments.improve()
    threads.improve()
    distributions.improve()
    ministack.app.main()
