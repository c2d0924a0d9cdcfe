"""What a store answers when an id that was drawn for a new row is another row's."""

from __future__ import annotations


class IdTakenError(Exception):
    """Another row has this id: nothing was written. Whoever drew the id draws another one."""

    def __init__(self, taken: int) -> None:
        super().__init__(f"the id {taken} is taken")
