"""The refusal to serve narrow tokens on a machine where code could do everything."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.domain.errors import InvalidInputError
from noetl.kinds.sandbox.layers import Layers

BRINGS_CODE = frozenset({"write", "execute"})


def is_narrow(scopes: Iterable[str]) -> bool:
    """Return whether a token with ``scopes`` may have code run, and may not do everything."""
    return "admin" not in scopes and bool(BRINGS_CODE & set(scopes))


def refuse_unconfined_code(layers: Layers, tokens: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Refuse tokens that promise too much while code is unconfined.

    ``tokens``: names and scopes. Raises InvalidInputError(code="code_unconfined") for such a token.
    """
    if layers.confines_files:
        return
    narrow = sorted(name for name, scopes in tokens if is_narrow(scopes))
    if narrow:
        shown = ", ".join(repr(name[:40]) for name in narrow[:5]) + (" and others" if len(narrow) > 5 else "")
        raise InvalidInputError(
            f"nothing confines code of playbooks on this machine: what the tokens {shown} start can read every secret of the home folder",
            code="code_unconfined",
            hint="remove these tokens (`noetl token remove`), leave code to workers on another machine (--external python),"
            " or accept it: --accept-unconfined-code. `noetl doctor` names the missing layers",
        )
