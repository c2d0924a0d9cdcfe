"""Parameters of the kind ``python``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from noetl.domain.kinds import CODE_CHARACTERS
from noetl.kinds.support.base import KindParams


class Params(KindParams):
    """The code; its input is in the task's ``args``/``input``."""

    code: Annotated[
        str, Field(min_length=1, max_length=CODE_CHARACTERS, description="Python source, never a template.")
    ]

    process: Annotated[
        Literal["automatic", "execution", "playbook"],
        Field(
            description="Who shares the process that runs the code: the tasks of one execution, or those of all "
            "executions of this version of the playbook on one worker. `automatic`: executions share it where the "
            "code can keep nothing for the next call."
        ),
    ] = "automatic"

    refused: ClassVar[Mapping[str, str]] = {
        "libs": "install libraries where workers run; code may import every library that is installed there",
        "script": "write the code under `code`, or run a file with `kind: script`",
        "auth": "pass what the code needs by name: `input: {token: '{{ keychain.<name>.token }}'}`",
    }
