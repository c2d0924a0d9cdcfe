"""How executions ended, as far as this process has seen it. A server runs for a long time: of the oldest only the store knows."""

from __future__ import annotations

from collections.abc import Iterable

MOST = 100_000


class Ends(dict[int, str]):
    """Execution → status. Not for several threads at once."""

    def note(self, ended: Iterable[tuple[int, str]]) -> None:
        """Remember these, and forget the oldest."""
        self.update(ended)
        while len(self) > MOST:
            del self[next(iter(self))]
