"""Progress reports of operations that take minutes."""

from __future__ import annotations

import time

from noetl.cli.render.output import note, out_json


class Progress:
    """The reporter of steps as they begin: a line with the seconds spent so far, or JSON."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._begun = time.monotonic()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._begun

    def __call__(self, step: str) -> None:
        if self._as_json:
            out_json({"event": "progress", "step": step, "seconds": round(self.spent, 1)})
        else:
            note(f"{self.spent:5.1f}s  {step}")
