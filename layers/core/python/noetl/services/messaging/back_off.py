"""Back-off of a message during an outage.

Each pause is longer than the last, so that a long outage needs few deliveries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

FIRST_SECONDS = 5.0
MOST_SECONDS = 900.0
LONGEST_SECONDS = 1800.0
"""What a setting may raise ``MOST_SECONDS`` to: an event comes again before retention may remove its execution (``prune.LEAST_SECONDS``)."""


@dataclass(frozen=True, slots=True)
class BackOff:
    """Pauses that double from ``first`` seconds to ``most``.

    An hour takes 10 deliveries, a day 102.
    """

    first: float = FIRST_SECONDS
    most: float = MOST_SECONDS

    def after(self, received: int, first: float | None = None) -> int:
        """Return the pause after the ``received``-th delivery (1, 2, …), in whole seconds.

        ``first``: replaces the usual first pause.
        """
        begin = self.first if first is None else min(first, self.most)
        return math.ceil(min(self.most, begin * 2.0 ** min(max(received, 1) - 1, 30)))


USUAL = BackOff()
