"""Facts about control from outside that carry no token.

The others are in ``domain/facts/facts.py``.
"""

from __future__ import annotations

import msgspec


class Paused(msgspec.Struct, frozen=True, tag="execution.paused", tag_field="name", omit_defaults=True):
    reason: str = ""
    principal: str = ""
    word: int = 0


class Resumed(msgspec.Struct, frozen=True, tag="execution.resumed", tag_field="name", omit_defaults=True):
    reason: str = ""
    principal: str = ""
    word: int = 0


class FamilyRequestNoted(
    msgspec.Struct, frozen=True, tag="family.told", tag_field="name", omit_defaults=True
):
    """A parent's request that does not change the execution it reached.

    The execution is not paused (resume), or has ended (it passes the request on).

    A word that is older comes too late.
    """

    word: int


class Cancelled(msgspec.Struct, frozen=True, tag="execution.cancelled", tag_field="name", omit_defaults=True):
    """The cancellation of an execution.

    ``unreadable``: why the stored state could not be read; what ended was taken from history.
    """

    reason: str = ""
    principal: str = ""
    unreadable: str = ""
