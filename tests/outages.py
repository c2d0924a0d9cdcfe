"""How many outages of a database the tests make, and how long each one is.

``NOETL_SOAK_OUTAGES=100`` makes as many, of one second to two minutes; without it there is a single short one. ``NOETL_FIRST_OUTAGE`` is the
first of them, so that ``NOETL_SOAK_OUTAGES=1 NOETL_FIRST_OUTAGE=17`` runs the one that failed again. ``NOETL_OUTAGE_SECONDS=1-5`` bounds them.
"""

from __future__ import annotations

import os
import random

FIRST = int(os.environ.get("NOETL_FIRST_OUTAGE", "0"))
WANTED = int(os.environ.get("NOETL_SOAK_OUTAGES", "0"))
NUMBERS = range(FIRST, FIRST + max(1, WANTED))
LEAST, MOST = (
    float(bound)
    for bound in os.environ.get("NOETL_OUTAGE_SECONDS", "1-120" if WANTED else "0.2-1").split("-")
)


def seconds(rng: random.Random) -> float:
    """Draw a length: as many are short as are long, because other things go wrong in them."""
    return LEAST * (MOST / LEAST) ** rng.random()
