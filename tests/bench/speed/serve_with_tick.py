"""``noetl`` with the kind ``tick``: what ``noetl serve`` is started with where the benchmarks' no-op is measured too.

Usage: python -m tests.bench.speed.serve_with_tick serve …
"""

from noetl.cli.main import main
from noetl.kinds.registry import default_registry
from tests.bench import tick

if __name__ == "__main__":
    default_registry().add(tick)
    raise SystemExit(main())
