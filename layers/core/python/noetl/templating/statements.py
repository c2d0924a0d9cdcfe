"""Syntax tree to Python closures: text, blocks and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import nodes

from noetl.domain.errors import TemplateError
from noetl.templating.access import describe, iterate
from noetl.templating.expressions import Evaluate, compile_node, make_filter
from noetl.templating.plain import to_text
from noetl.templating.run import LoopState, Namespace, Run

Out = list[Any]
Emit = Callable[[Run, Out, Any], None]
"""Adds the value of an ``{{ expression }}`` to the output."""
Statement = Callable[[Run, Out], None]


class Blocks:
    """A compiler of one template's statements.

    ``emit`` decides what an expression's value becomes.
    """

    def __init__(self, emit: Emit, *, captures: bool = True) -> None:
        self._emit = emit
        self._captures = captures

    def compile(self, body: list[nodes.Node]) -> Statement:
        """Statements as one function that appends to an output list."""
        statements = [self._statement(node) for node in body]
        if len(statements) == 1:
            return statements[0]

        def run_all(run: Run, out: Out) -> None:
            for statement in statements:
                statement(run, out)

        return run_all

    def _statement(self, node: nodes.Node) -> Statement:
        maker = self._makers().get(type(node))
        if maker is None:
            raise _refused(node)
        return maker(node)

    def _makers(self) -> dict[type[nodes.Node], Callable[[Any], Statement]]:
        return {
            nodes.Output: self._output,
            nodes.For: self._for,
            nodes.If: self._if,
            nodes.Assign: self._assign,
            nodes.AssignBlock: self._assign_block,
            nodes.With: self._with,
            nodes.FilterBlock: self._filter_block,
        }

    def _output(self, node: nodes.Output) -> Statement:
        parts: list[tuple[str, Evaluate | None, int]] = []
        for child in node.nodes:
            if isinstance(child, nodes.TemplateData):
                parts.append((child.data, None, child.lineno))
            else:
                parts.append(("", compile_node(child), child.lineno))
        emit = self._emit

        def write(run: Run, out: Out) -> None:
            for text, evaluate, line in parts:
                if evaluate is None:
                    run.meter.allocate(len(text))
                    out.append(text)
                else:
                    run.line = line
                    emit(run, out, evaluate(run))

        return write

    def _if(self, node: nodes.If) -> Statement:
        branches = [
            (compile_node(branch.test), branch.lineno, self.compile(branch.body))
            for branch in (node, *node.elif_)
        ]
        otherwise = self.compile(node.else_) if node.else_ else None

        def choose(run: Run, out: Out) -> None:
            for test, line, body in branches:
                run.line = line
                if test(run):
                    body(run, out)
                    return
            if otherwise is not None:
                otherwise(run, out)

        return choose

    def _for(self, node: nodes.For) -> Statement:
        if node.recursive:
            raise _refused(node, "a recursive loop")
        collection, body = compile_node(node.iter), self.compile(node.body)
        bind = _binder(node.target)
        test = compile_node(node.test) if node.test is not None else None
        otherwise = self.compile(node.else_) if node.else_ else None
        line = node.lineno

        def keep(run: Run, entry: Any, test: Evaluate) -> bool:
            outer = run.vars
            run.vars = dict(outer)
            bind(run, entry)
            try:
                return bool(test(run))
            finally:
                run.vars = outer

        def loop(run: Run, out: Out) -> None:
            run.line = line
            entries = iterate(run.meter, collection(run))
            if test is not None:
                entries = [entry for entry in entries if keep(run, entry, test)]
            outer, state = run.vars, LoopState(entries)
            try:
                for index, entry in enumerate(entries):
                    run.meter.tick()
                    state.index0 = index
                    run.vars = {**outer, "loop": state}
                    bind(run, entry)
                    body(run, out)
            finally:
                run.vars = outer
            if not entries and otherwise is not None:
                otherwise(run, out)

        return loop

    def _assign(self, node: nodes.Assign) -> Statement:
        value, bind, line = compile_node(node.node), _binder(node.target), node.lineno

        def assign(run: Run, out: Out) -> None:
            run.line = line
            bind(run, value(run))

        return assign

    def _assign_block(self, node: nodes.AssignBlock) -> Statement:
        body, bind = self._capture(node, node.body), _binder(node.target)
        captured: Evaluate = body if node.filter is None else _filter_chain(node.filter, body)
        return lambda run, out: bind(run, captured(run))

    def _filter_block(self, node: nodes.FilterBlock) -> Statement:
        filtered, emit = _filter_chain(node.filter, self._capture(node, node.body)), self._emit
        return lambda run, out: emit(run, out, filtered(run))

    def _with(self, node: nodes.With) -> Statement:
        values = [
            (_binder(target), compile_node(value))
            for target, value in zip(node.targets, node.values, strict=True)
        ]
        body = self.compile(node.body)

        def scoped(run: Run, out: Out) -> None:
            outer = run.vars
            given = [(bind, value(run)) for bind, value in values]
            run.vars = dict(outer)
            try:
                for bind, value in given:
                    bind(run, value)
                body(run, out)
            finally:
                run.vars = outer

        return scoped

    def _capture(self, node: nodes.Node, body: list[nodes.Node]) -> Evaluate:
        if not self._captures:
            raise _refused(node, "a block whose text is captured, inside SQL,")
        statement = self.compile(body)

        def capture(run: Run) -> str:
            outer, out = run.vars, Out()
            run.vars = dict(outer)
            try:
                statement(run, out)
            finally:
                run.vars = outer
            return "".join(out)

        return capture


def emit_text(run: Run, out: Out, value: Any) -> None:
    """Text output."""
    text = to_text(value)
    run.meter.allocate(len(text))
    out.append(text)


def _filter_chain(node: nodes.Filter, inner: Evaluate) -> Evaluate:
    below = inner if node.node is None else _filter_chain(_as_filter(node.node), inner)
    return make_filter(node, below)


def _as_filter(node: nodes.Expr) -> nodes.Filter:
    if not isinstance(node, nodes.Filter):
        raise _refused(node)
    return node


def _binder(target: nodes.Node) -> Callable[[Run, Any], None]:
    """Make the function that assigns a value to the target of ``for``, ``set``, ``with``."""
    if isinstance(target, nodes.Name):
        name = target.name
        return lambda run, value: run.vars.__setitem__(name, value)
    if isinstance(target, nodes.NSRef):
        return _namespace_binder(target.name, target.attr)
    if not isinstance(target, nodes.Tuple):
        raise _refused(target)
    inner = [_binder(part) for part in target.items]

    def unpack(run: Run, value: Any) -> None:
        parts = iterate(run.meter, value)
        if len(parts) != len(inner):
            raise TemplateError(f"{len(inner)} names are given for {len(parts)} values of {describe(value)}")
        for bind, part in zip(inner, parts, strict=True):
            bind(run, part)

    return unpack


def _namespace_binder(name: str, attr: str) -> Callable[[Run, Any], None]:
    def bind(run: Run, value: Any) -> None:
        target = run.load(name)
        if not isinstance(target, Namespace):
            raise TemplateError(
                f"{name}.{attr} cannot be set", hint="only values made by namespace(…) can be changed"
            )
        target.values[attr] = value

    return bind


def _refused(node: nodes.Node, what: str | None = None) -> TemplateError:
    word = what or f"{{% {type(node).__name__.lower()} %}}"
    return TemplateError(
        f"{word} is not available in templates", code="template_syntax", details={"source_line": node.lineno}
    )
