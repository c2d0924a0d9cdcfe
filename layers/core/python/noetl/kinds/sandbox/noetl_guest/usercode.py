"""Runs one piece of user code: finds its result, whichever of the three ways it is given.

``result = …``; ``def main(...)``, whose parameters are filled by name; ``return …`` at the top.
"""

from __future__ import annotations

import ast
import keyword
import marshal
import sys
from collections.abc import Callable, Mapping
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .results import Context, readable

FILENAME = "<code>"
MODULE = "__noetl__"
CACHE_SIZE = 256
MOST_LAMBDAS = 100
VAR_KEYWORDS = 0x08
COROUTINE = 0x80

Ask = Callable[[list[str]], Mapping[str, Any]]
"""Returns the values of those names that the task's scope has."""

_MISSING = object()
_FELL_THROUGH = object()
"""Marks that code with a ``return`` somewhere reached its end without one: its ``result`` counts."""
_compiled: dict[tuple[str, tuple[str, ...]], tuple[CodeType, bool]] = {}


def names_of(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the code's values, in order: those that are names in Python."""
    return tuple(sorted(name for name in values if _is_name(name)))


def execute(
    code: str,
    values: dict[str, Any],
    ask: Ask,
    names: tuple[str, ...] | None = None,
    made: tuple[bytes, bool] | None = None,
) -> Any:
    """Run the code and return its result, of any type; None when it has none.

    Raises what the code raises. ``names``: ``names_of(values)``. ``made``: what ``compile_code`` returns for them, by ``marshal``; None:
    the code is compiled here.
    """
    names = names_of(values) if names is None else names
    values = readable(values)
    compiled, returns = _compile(code, names, made)
    namespace = _fresh_namespace()
    namespace["input_data"] = values
    for name in names:
        namespace[name] = values[name]
    if "context" in code and "context" not in values:
        namespace["context"] = Context(values, ask)
    given_result = namespace.get("result", _MISSING)
    exec(compiled, namespace)
    if returns:
        found = namespace["__body__"](**{name: namespace[name] for name in {"input_data", *names}})
        if type(found) is not tuple or found[:1] != (_FELL_THROUGH,):
            return found
        return None if found[1] is given_result else found[1]
    found = namespace.get("result", _MISSING)
    if found is not given_result:
        return None if found is _MISSING else found
    main = namespace.get("main")
    if callable(main) and "main" not in names:
        return _call_main(main, values, ask)
    return None


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("__")


def _fresh_namespace() -> dict[str, Any]:
    # Registered, because dataclasses and pickle look up the module a class says it is from. Its name is not
    # "__main__", so that ``if __name__ == "__main__": main()`` does not call main a second time.
    module = ModuleType(MODULE)
    sys.modules[MODULE] = module
    module.__dict__.update(__missing__=_MISSING, __fell_through__=_FELL_THROUGH)
    return module.__dict__


def _compile(code: str, names: tuple[str, ...], made: tuple[bytes, bool] | None) -> tuple[CodeType, bool]:
    found = _compiled.get((code, names))
    if found is None:
        if len(_compiled) >= CACHE_SIZE:
            _compiled.clear()
        found = (marshal.loads(made[0]), made[1]) if made is not None else compile_code(code, names)
        _compiled[code, names] = found
    return found


def forget_code() -> None:
    """Forget all code and its namespace."""
    _compiled.clear()
    sys.modules.pop(MODULE, None)


def compile_code(code: str, names: tuple[str, ...]) -> tuple[CodeType, bool]:
    """Compile the code for ``names``; report whether it is a function body with ``return``.

    Raises SyntaxError, ValueError (NUL, or lambdas nested too deep), MemoryError or RecursionError (too deeply nested).
    """
    if code.count("lambda") > MOST_LAMBDAS:
        _check_lambdas(code)
    try:
        return compile(code, FILENAME, "exec", dont_inherit=True, optimize=0), False
    except IndentationError:
        from textwrap import dedent

        if dedent(code) == code:
            raise
        return compile_code(dedent(code), names)
    except SyntaxError as error:
        if error.msg != "'return' outside function":
            raise
        return _compile_returning(code, names), True


def _check_lambdas(code: str) -> None:
    """Refuse lambdas that are nested too deep.

    To compile them takes the square of their number, and no thread runs meanwhile. Raises ValueError.
    """
    try:
        tree = ast.parse(code, FILENAME)
    except SyntaxError:
        return  # the compiler explains it, and does not come to the lambdas
    todo: list[tuple[ast.AST, int]] = [(tree, 0)]
    while todo:
        node, depth = todo.pop()
        depth += isinstance(node, ast.Lambda)
        if depth > MOST_LAMBDAS:
            raise ValueError(f"more than {MOST_LAMBDAS} lambdas are nested in one another")
        todo += [(inner, depth) for inner in ast.iter_child_nodes(node)]


def _compile_returning(code: str, names: tuple[str, ...]) -> CodeType:
    """Compile the code as the body of a function.

    The values are the function's own variables, so that ``n = n + 1`` works as it does outside a function.
    """
    tree = ast.parse(code, FILENAME)
    future = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module == "__future__"]
    body = [node for node in tree.body if node not in future]
    own = ", ".join(("input_data", *(name for name in names if name != "input_data")))
    frame = ast.parse(
        f"def __body__({own}):\n    return (__fell_through__, locals().get('result', __missing__))", FILENAME
    )
    function = frame.body[0]
    assert isinstance(function, ast.FunctionDef)
    function.body[:0] = body
    frame.body[:0] = future
    return compile(frame, FILENAME, "exec", dont_inherit=True, optimize=0)


def _call_main(main: Callable[..., Any], values: Mapping[str, Any], ask: Ask) -> Any:
    positional, named, takes_rest = _parameters(main)
    known: dict[str, Any] = {"input_data": values, **values}
    wanted = [name for name, _ in (*positional, *named) if name not in known]
    if wanted:
        known.update((name, readable(value)) for name, value in ask(wanted).items())
        if "context" in wanted:
            known.setdefault("context", Context(values, ask))
    chosen = {name: known.get(name, default) for name, default in (*positional, *named)}
    missing = [name for name, value in chosen.items() if value is _MISSING]
    if missing:
        raise TypeError(_missing_parameters(missing, values))
    rest = {name: value for name, value in values.items() if name not in chosen} if takes_rest else {}
    given = main(
        *(chosen[name] for name, _ in positional), **{name: chosen[name] for name, _ in named}, **rest
    )
    code = getattr(main, "__code__", None)
    if code is not None and code.co_flags & COROUTINE:
        import asyncio

        return asyncio.run(given)
    return given


def _missing_parameters(missing: list[str], values: Mapping[str, Any]) -> str:
    names = ", ".join(repr(name) for name in missing)
    given = ", ".join(sorted(values)) or "nothing"
    return f"main() needs {names}: not in args (given: {given}), not a name of the playbook, and no default"


Parameters = list[tuple[str, Any]]


def _parameters(main: Callable[..., Any]) -> tuple[Parameters, Parameters, bool]:
    """Return positional and keyword-only parameters with their defaults, and any ``**rest``."""
    if not isinstance(main, FunctionType) or hasattr(main, "__wrapped__"):
        return _inspected_parameters(main)
    code = main.__code__
    names = code.co_varnames[: code.co_argcount]
    defaults = main.__defaults__ or ()
    padding = (_MISSING,) * (len(names) - len(defaults))
    only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    positional = list(zip(names, (*padding, *defaults), strict=True))
    named = [(name, (main.__kwdefaults__ or {}).get(name, _MISSING)) for name in only]
    return positional, named, bool(code.co_flags & VAR_KEYWORDS)


def _inspected_parameters(main: Callable[..., Any]) -> tuple[Parameters, Parameters, bool]:
    import inspect

    positional: Parameters = []
    named: Parameters = []
    takes_rest = False
    for name, parameter in inspect.signature(main).parameters.items():
        default = _MISSING if parameter.default is parameter.empty else parameter.default
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append((name, default))
        elif parameter.kind is parameter.KEYWORD_ONLY:
            named.append((name, default))
        takes_rest = takes_rest or parameter.kind is parameter.VAR_KEYWORD
    return positional, named, takes_rest
