"""One module per stack; stacks_of.py says how they fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict

import aws_cdk as cdk


class StackArguments(TypedDict, total=False):
    """What every stack is given as it is."""

    env: cdk.Environment
    tags: Mapping[str, str]
    synthesizer: cdk.IStackSynthesizer | None
    stack_name: str
    permissions_boundary: cdk.PermissionsBoundary | None
