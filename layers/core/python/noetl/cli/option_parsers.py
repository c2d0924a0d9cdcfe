"""Readers of texts, whole numbers and lists of texts.

They read a command line without the validators of Typer.

Typer validates with pydantic, whose import takes a third of the time of a short command. What is not plain, and everything that is wrong,
Typer reads as ever: its messages stay the same.
"""

from __future__ import annotations

import re
from typing import Any

_NUMBER = re.compile(r"[+-]?[0-9]{1,18}")
_SLOT = "_runtime_param"
"""Where Typer keeps the validator of a parameter, None until it is needed. A version of Typer without it is left alone."""
_ODD = object()


def read_plainly(command: Any) -> None:
    """Read plain values before the validators of Typer.

    For each parameter of ``command`` and of its subcommands.
    """
    known = command.get_params

    def get_params(ctx: Any) -> list[Any]:
        parameters: list[Any] = known(ctx)  # with --help, which is made here
        for parameter in parameters:
            if getattr(parameter, _SLOT, _ODD) is None:
                setattr(parameter, _SLOT, _PlainReader())
        return parameters

    command.get_params = get_params
    for subcommand in getattr(command, "commands", {}).values():
        read_plainly(subcommand)


class _PlainReader:
    """In the place of Typer's ``RuntimeParam``."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Give the value that the command's function gets.

        Raises what Typer raises for one that does not fit.
        """
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        about = param.type_descriptor
        plain = (
            _ODD
            if about.parameter_info.parser is not None
            else plainly(value, about.annotation, about.parameter_info)
        )
        if plain is not _ODD:
            return plain
        setattr(param, _SLOT, None)
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def plainly(value: Any, annotation: Any, limits: Any) -> Any:
    """Give ``value`` as its annotation says, or ``_ODD`` when Typer has to look at it.

    ``limits``: with ``min`` and ``max``.
    """
    if annotation is str and isinstance(value, str):
        return value
    if (
        annotation == list[str]
        and isinstance(value, list | tuple)
        and all(isinstance(one, str) for one in value)
    ):
        return list(value)
    if annotation is int and (type(value) is int or (isinstance(value, str) and _NUMBER.fullmatch(value))):
        number = int(value)
        least, most = limits.min, limits.max
        if (least is None or number >= least) and (most is None or number <= most):
            return number
    return _ODD
