"""Python source to a syntax tree, whichever threads parse at the same time."""

from __future__ import annotations

import ast
import threading

_TRIES = 5
_ONE_AT_A_TIME = threading.Lock()


def parse_python(source: str) -> ast.Module:
    """Return the syntax tree of ``source``.

    Raises SyntaxError, ValueError, RecursionError, MemoryError.

    CPython before 3.11.8 and 3.12.2 counts the depth of the tree for all threads together: when another thread parses
    meanwhile, ``ast.parse`` may end with a SystemError ("AST constructor recursion depth mismatch",
    https://github.com/python/cpython/issues/106905) for a source that is fine. The lock keeps the engine's own threads
    apart; the tries are for threads of others.
    """
    for _ in range(_TRIES - 1):
        try:
            with _ONE_AT_A_TIME:
                return ast.parse(source)
        except SystemError:
            continue
    with _ONE_AT_A_TIME:
        return ast.parse(source)
