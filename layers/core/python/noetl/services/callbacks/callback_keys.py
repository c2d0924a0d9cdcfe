"""What a worker is given to make the tokens of its command's callbacks with."""

from __future__ import annotations

from collections.abc import Callable

from noetl.domain.callbacks import run_key
from noetl.domain.capability_tokens import KeyRing
from noetl.domain.commands import Command
from noetl.dsl.program import Program


def callback_key(command: Command, programs: Callable[[str], Program], ring: KeyRing) -> str:
    """Return the key of the command's step run; empty when it waits for no callback."""
    from noetl.pipeline.inline import (
        stage_pipeline,  # templates come with it; a function that routes needs none
    )

    try:
        step = programs(command.program).step(command.step)
        waits = stage_pipeline(step, command).calls_back
    except LookupError:
        return ""
    return run_key(command.execution_id, command.run, ring) if waits else ""
