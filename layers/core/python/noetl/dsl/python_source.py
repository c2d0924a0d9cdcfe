"""Python source to a syntax tree, whichever threads parse at the same time."""

from __future__ import annotations

import ast
import functools
import threading
from dataclasses import dataclass, field

_TRIES = 5
_ONE_AT_A_TIME = threading.Lock()
_KEPT = 100_000
"""Characters of a source whose tree is kept: many rules and lints look at the same code one after the other."""


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


_WORDS = (ast.expr_context, ast.operator, ast.boolop, ast.unaryop, ast.cmpop)
"""Nodes that hold nothing."""


@dataclass(eq=False, slots=True)
class PythonTree:
    """A syntax tree that nothing changes, with what takes a walk through all of it to find."""

    module: ast.Module
    nodes: list[ast.AST] = field(default_factory=list)
    """In the order of ``ast.walk``, without operators and contexts."""
    parents: dict[ast.AST, ast.AST] = field(default_factory=dict)
    names: list[ast.Name] = field(default_factory=list)
    within_texts: set[ast.AST] = field(default_factory=set)
    """What is in the braces of an f-string: CPython before 3.12 does not say where that is."""

    def __post_init__(self) -> None:
        self.nodes = [self.module]
        for node in self.nodes:
            within = isinstance(node, ast.JoinedStr) or node in self.within_texts
            if within:
                self.within_texts.add(node)
            if isinstance(node, ast.Name):
                self.names.append(node)
            for child in ast.iter_child_nodes(node):
                if isinstance(child, _WORDS):
                    continue
                self.parents[child] = node
                self.nodes.append(child)
                if within:
                    self.within_texts.add(child)


def python_tree(source: str) -> PythonTree:
    """Return the tree of ``source``, which callers only read.

    It raises what ``parse_python`` does.
    """
    return _kept_tree(source) if len(source) <= _KEPT else PythonTree(parse_python(source))


@functools.lru_cache(maxsize=4)
def _kept_tree(source: str) -> PythonTree:
    return PythonTree(parse_python(source))
