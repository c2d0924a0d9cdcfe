"""The error of a store when the id drawn for a new row is already in use."""

from __future__ import annotations


class IdTakenError(Exception):
    """Another row has this id: nothing was written. The caller draws another id."""

    def __init__(self, taken: int) -> None:
        super().__init__(f"the id {taken} is taken")
