"""Data about a playbook for editors: its names, changes of its text."""

from __future__ import annotations

import msgspec


class TextEdit(msgspec.Struct, frozen=True):
    """A part of one line, and what to write in its place.

    ``line`` and ``column`` begin at 1; ``end_column`` is behind the part.
    """

    line: int
    column: int
    end_column: int
    text: str


class StepNames(msgspec.Struct, frozen=True):
    """The names that templates of one step know.

    ``iterator``: of its loop; ``arguments``: what arcs and the step itself pass; ``tasks``: labels; ``iteration``: what is set in ``iter``;
    ``fields``: what may follow the step's name, ``rows`` and ``command_0.rows``, as far as they follow from the text.
    """

    step: str
    alias: str | None
    iterator: str | None
    arguments: list[str]
    tasks: list[str]
    iteration: list[str]
    fields: list[str]


class PlaybookNames(msgspec.Struct, frozen=True):
    """Every name that a playbook declares, sorted; steps in their order."""

    workload: list[str]
    ctx: list[str]
    vars: list[str]
    keychain: list[str]
    workbook: list[str]
    steps: list[StepNames]
