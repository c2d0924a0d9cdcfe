"""``kind: agent``: a step that asks a model, and a second one that runs the tools which it calls.

Both are written out as steps of the document before it is lowered, so that everything behind this module sees steps that an
author could have written: each request to the model is a run of the step, each tool call an item of a loop.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from noetl.dsl.diagnostics import listing
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.lowering.tasks import canonical_params, check_params, without_empty
from noetl.dsl.lowering.workbook import workbook_entries
from noetl.dsl.program import Pos
from noetl.dsl.task_signature import signature_of
from noetl.dsl.yaml_text.tree import (
    Key,
    Mapping,
    Sequence,
    Tree,
    items_of,
    made_tree,
    mapping_of,
    text_of,
)

_BESIDE = frozenset({"kind", "name", "desc", "spec", "retry", "set"})
"""Keys of an agent that are no parameters."""
_NOT_HERE = {
    "loop": "call a playbook that has the agent, once for each item",
    "case": "write arcs: next: { arcs: [ … ] }",
    "sink": "write what it answers in a step of its own",
    "cache": "its answer depends on the whole conversation; cache what its tools look up",
}
"""Keys of a step that cannot stand beside an agent, each with what to do instead."""
_MOST = 20
"""Requests of a conversation unless `max_calls` says otherwise, as the parameter's default."""
_SECONDS = 120
"""Seconds that a request may take unless `spec.timeout` says otherwise."""
_MESSAGE = "output.data.choices[0].message"
_RESULT = {
    "content": f"{{{{ {_MESSAGE}.content | default(none) }}}}",
    "tool_calls": f"{{{{ {_MESSAGE}.tool_calls | default([], true) }}}}",
    "finish_reason": "{{ output.data.choices[0].finish_reason | default(none) }}",
    "model": "{{ output.data.model | default(none) }}",
    "usage": "{{ output.data.usage | default({}, true) }}",
}
_NO_CHOICES = "the answer has no choices: is `url` an address of chat completions?"
_TOO_MANY = "the model still calls tools, and was asked as often as max_calls allows:"
_FUNCTION_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


@dataclass(frozen=True, slots=True)
class _Agent:
    """A step with an agent, and the names of what is written for it."""

    step: str
    block: Mapping
    tool: Mapping
    params: Mapping
    tools: dict[str, dict[str, Any]]
    """The tasks that the model may call, by name: the function that each of them is to the model."""
    workbook: dict[str, Mapping]

    @property
    def pos(self) -> Pos:
        return self.tool.key_pos("kind")

    @property
    def calls(self) -> str:
        """The step that runs the tools."""
        return f"{self.step}_tools"

    @property
    def word(self) -> str:
        """The step's name as the beginning of names in templates."""
        return re.sub(r"\W", "_", self.step)

    @property
    def messages(self) -> str:
        """The variable of ``ctx`` that holds the conversation."""
        return f"{self.word}_messages"

    @property
    def opening(self) -> str:
        """The task that makes the messages which the conversation begins with."""
        return f"{self.word}_opening"

    @property
    def call(self) -> str:
        """The name of a tool call in its loop."""
        return f"{self.word}_call"

    @property
    def so_far(self) -> str:
        """The conversation, as an expression: it goes on after an answer of a tool, and begins again otherwise."""
        last = f"(ctx.{self.messages} | default([{{'role': ''}}], true) | last)"
        return f"(ctx.{self.messages} if {last}.role == 'tool' else {self.opening}.messages)"


def with_agents(lowering: Lowering, root: Mapping) -> Mapping:
    """Return the document with each step of an agent written out as its two steps."""
    workflow = root.get("workflow")
    blocks = [mapping_of(item) for item in items_of(workflow)]
    if not isinstance(workflow, Sequence) or not any(map(_is_agent, blocks)):
        return root
    names = {text_of(block.get("step")) or "" for block in blocks}
    workbook = workbook_entries(root.get("workbook"))
    known = _names_of(root) | names
    steps: list[Tree] = []
    for block in blocks:
        steps += _written_out(lowering, block, workbook, names, known) if _is_agent(block) else [block]
    key = root.entries["workflow"][0]
    return Mapping({**root.entries, "workflow": (key, Sequence(steps, workflow.pos))}, root.pos)


def _is_agent(block: Mapping) -> bool:
    return text_of(mapping_of(block.get("tool")).get("kind")) == "agent"


def _names_of(root: Mapping) -> set[str]:
    schema = mapping_of(mapping_of(root.get("input")).get("properties"))
    return {*mapping_of(root.get("workload")).entries, *schema.entries}


def _written_out(
    lowering: Lowering, block: Mapping, workbook: dict[str, Mapping], names: set[str], known: set[str]
) -> list[Tree]:
    step = text_of(block.get("step")) or ""
    tool = without_empty(mapping_of(block.get("tool")))
    spec = find_spec(lowering.kinds, "agent")
    if spec is None:
        return [block]
    given = canonical_params(lowering, tool.without(*_BESIDE), spec)
    before = len(lowering.diagnostics)
    check_params(lowering, tool, given, spec)
    _check_place(lowering, block, tool)
    tools = _tools(lowering, given, workbook, known)
    agent = _Agent(step, block, tool, given, tools, workbook)
    if tools and agent.calls in names:
        lowering.diagnostics.error(
            "duplicate-step",
            f"the tools of the agent {step!r} run as a step called {agent.calls!r}, and there is one already",
            block.key_pos("step"),
            hint="rename one of them",
        )
    if len(lowering.diagnostics) > before:
        return [_with(block, tool=made_tree({"kind": "noop"}, agent.pos))]
    lowering.agents[agent.calls] = step
    return [_asking(agent), _calling(agent)] if tools else [_asking(agent)]


def _check_place(lowering: Lowering, block: Mapping, tool: Mapping) -> None:
    """Report what cannot stand beside an agent."""
    for name, hint in _NOT_HERE.items():
        if block.has(name):
            lowering.diagnostics.error(
                "misplaced-key", f"`{name}` cannot stand beside an agent", block.key_pos(name), hint=hint
            )
    policy = mapping_of(tool.get("spec")).entries.get("policy")
    if policy is not None:
        lowering.diagnostics.error(
            "misplaced-key",
            "an agent has no rules of its own",
            policy[0].pos,
            hint="write retry: { … } for failed requests, and arcs with `on` for what comes after",
        )
    routes = block.get("next")
    if routes is not None and not isinstance(routes, Mapping):
        lowering.diagnostics.error(
            "wrong-type", "`next` of an agent is a mapping", routes.pos, hint="write next: { arcs: [ … ] }"
        )
    mode = mapping_of(mapping_of(routes).get("spec")).get("mode")
    if text_of(mode) == "inclusive" and mode is not None:
        lowering.diagnostics.error(
            "wrong-value",
            "an agent follows one arc when it has answered",
            mode.pos,
            hint="lead to a step without a tool that has these arcs",
        )


def _tools(
    lowering: Lowering, given: Mapping, workbook: dict[str, Mapping], known: set[str]
) -> dict[str, dict[str, Any]]:
    """Return what the model is told about each tool: its name, what it does, and its parameters."""
    found: dict[str, dict[str, Any]] = {}
    for item in items_of(given.get("tools")):
        entry = mapping_of(item)
        tree = entry.get("task") if isinstance(item, Mapping) else item
        name = text_of(tree) or ""
        if tree is None or not _can_be_called(lowering, tree, name, workbook, found):
            continue
        task = mapping_of(workbook[name].get("tool"))
        text = entry.get("description") or workbook[name].get("desc") or task.get("desc")
        found[name] = {
            "name": name,
            **({"description": text} if text is not None else {}),
            "parameters": entry.get("parameters") or signature_of(task, known),
        }
    return found


def _can_be_called(
    lowering: Lowering, tree: Tree, name: str, workbook: dict[str, Mapping], found: Collection[str]
) -> bool:
    problem = hint = ""
    if name not in workbook:
        problem, code = f"the workbook has no task {name[:80]!r}", "unknown-task"
        hint = lowering.diagnostics.suggest(name, workbook, listing("tasks", workbook)) or ""
    elif name in found:
        problem, code = f"the tool {name!r} is there twice", "duplicate-task"
        hint = "keep one"
    elif not _FUNCTION_NAME.match(name):
        problem, code = f"a model cannot call {name[:80]!r}", "bad-name"
        hint = "give the task a name of at most 64 letters, digits, _ and -"
    if problem:
        lowering.diagnostics.error(code, problem, tree.pos, hint=hint)
    return not problem


def _with(mapping: Mapping, **values: Tree) -> Mapping:
    """Return a mapping with some entries replaced or added."""
    entries = {
        name: (mapping.entries[name][0] if mapping.has(name) else Key(name, value.pos), value)
        for name, value in values.items()
    }
    return Mapping({**mapping.entries, **entries}, mapping.pos)


def _asking(agent: _Agent) -> Mapping:
    """Write the step that makes one request to the model."""
    opening = {
        "name": agent.opening,
        "kind": "noop",
        "input": {"messages": _first(agent), "most": _most(agent)},
    }
    tasks = made_tree([opening, _request(agent)], agent.pos)
    if not agent.tools:
        return _with(agent.block, tool=tasks)
    routes = mapping_of(agent.block.get("next"))
    act = {"step": agent.calls, "on": "done", "when": "{{ output.data.tool_calls | length > 0 }}"}
    arcs = made_tree([act, *items_of(routes.get("arcs"))], agent.pos)
    return _with(agent.block, tool=tasks, next=_with(routes, arcs=arcs))


def _first(agent: _Agent) -> Any:
    messages = agent.params.get("messages")
    if messages is not None:
        return messages
    system = agent.params.get("system")
    told = [] if system is None else [{"role": "system", "content": system}]
    return [*told, {"role": "user", "content": agent.params.get("prompt")}]


def _most(agent: _Agent) -> Any:
    return agent.params.get("max_calls") or _MOST


def _request(agent: _Agent) -> dict[str, Any]:
    """Write the request: its answer joins the conversation, and its message is the step's result."""
    model, tools = agent.params.get("model"), agent.tools.values()
    body = {
        **({} if model is None else {"model": model}),
        "messages": f"{{{{ {agent.so_far} }}}}",
        **({"tools": [{"type": "function", "function": one} for one in tools]} if tools else {}),
        **{key.text: value for key, value in mapping_of(agent.params.get("body")).items()},
    }
    sent = {name: agent.params.get(name) for name in ("url", "auth", "headers") if agent.params.has(name)}
    asked = f"({agent.so_far} | selectattr('role', 'equalto', 'assistant') | list | length)"
    before = f"({agent.opening}.messages | selectattr('role', 'equalto', 'assistant') | list | length)"
    rules = [
        {
            "when": "{{ output.status == 'ok' and output.data.choices | default([], true) | length == 0 }}",
            "then": {"do": "fail", "message": _NO_CHOICES},
        },
        {
            "when": f"{{{{ output.status == 'ok' and {_MESSAGE}.tool_calls | default([], true) | length > 0"
            f" and {asked} - {before} + 1 >= {agent.opening}.most }}}}",
            "then": {"do": "fail", "message": f"{_TOO_MANY} {{{{ {agent.opening}.most }}}}"},
        },
        {
            "when": "{{ output.status == 'ok' }}",
            "then": {
                "set": {f"ctx.{agent.messages}": f"{{{{ {agent.so_far} + [{_MESSAGE}] }}}}"},
                "result": _RESULT,
            },
        },
    ]
    kept = {name: agent.tool.get(name) for name in ("desc", "retry", "set") if agent.tool.has(name)}
    spec = {"timeout": _SECONDS, **_plain_entries(agent.tool.get("spec")), "policy": {"rules": rules}}
    return {
        "name": f"{agent.step}_task",
        "kind": "http",
        "method": "POST",
        **sent,
        "body": body,
        **kept,
        "spec": spec,
    }


def _plain_entries(tree: Tree | None) -> dict[str, Any]:
    return {key.text: value for key, value in mapping_of(tree).items()}


def _calling(agent: _Agent) -> Tree:
    """Write the step that runs the tools of one answer: each call is an item of its loop."""
    width = agent.params.get("max_in_flight")
    spec = {} if width is None else {"spec": {"mode": "parallel", "max_in_flight": width}}
    return made_tree(
        {
            "step": agent.calls,
            "desc": f"Tools that the agent {agent.step} calls",
            "loop": {
                "in": f"{{{{ (ctx.{agent.messages} | last).tool_calls }}}}",
                "iterator": agent.call,
                **spec,
            },
            "tool": [_dispatch(agent), *(task for name in agent.tools for task in _called(agent, name))],
            "next": {"arcs": [{"step": agent.step}]},
        },
        agent.pos,
    )


def _dispatch(agent: _Agent) -> dict[str, Any]:
    """Write the task that reads a call and jumps to the tool which it names.

    What the model did wrong is told to the model.
    """
    given = f"{agent.call}.function.arguments | default('{{}}', true)"
    named = f"{agent.call}.function.name"
    rules: list[dict[str, Any]] = [
        {
            "when": "{{ output.status == 'error' }}",
            "then": _told(agent, "the arguments are no JSON: {{ output.error.message }}"),
        },
        {
            "when": "{{ output.data.given is not mapping }}",
            "then": _told(agent, "the arguments are no object of JSON"),
        },
    ]
    for name, function in agent.tools.items():
        is_it = f"{named} == {json.dumps(name)}"
        names = _closed(function["parameters"])
        if names is not None:
            unknown = f"output.data.given | list | reject('in', {json.dumps(names)}) | list"
            text = f"{name} has no argument {{{{ {unknown} | join(', ') }}}}; its arguments: {', '.join(names) or 'none'}"
            rules.append(
                {"when": f"{{{{ {is_it} and {unknown} | length > 0 }}}}", "then": _told(agent, text)}
            )
        rules.append({"when": f"{{{{ {is_it} }}}}", "then": {"do": "jump", "to": _label(agent, name)}})
    unknown = f"there is no tool {{{{ {named} }}}}; tools: {', '.join(agent.tools)}"
    return {
        "name": f"{agent.word}_arguments",
        "kind": "noop",
        "input": {"given": f"{{{{ ({given}) | fromjson if ({given}) is string else {given} }}}}"},
        "spec": {"policy": {"rules": [*rules, {"else": {"then": _told(agent, unknown)}}]}},
    }


def _closed(schema: Any) -> list[str] | None:
    """Return the arguments that a tool has; None where it may have others."""
    plain = schema.plain() if isinstance(schema, Mapping) else schema
    properties = plain.get("properties")
    return (
        None
        if not isinstance(properties, dict) or plain.get("additionalProperties") is True
        else list(properties)
    )


def _label(agent: _Agent, name: str) -> str:
    return f"{agent.word}_{name}"


def _called(agent: _Agent, name: str) -> list[dict[str, Any]]:
    """Write the call of one tool, and what tells its result to the model.

    The tool's own rules come first, and may fail the step. What they leave is an answer, or an error for the model to read.
    """
    failed = "{{ {'error': output.error.message} | tojson }}"
    told = {**_answered(agent, failed), "result": {"error": "{{ output.error }}"}}
    rules: list[Any] = [*_rules_of(agent, name)]
    if all(mapping_of(rule).has("when") for rule in rules):
        rules.append({"when": "{{ output.error | default(none) is not none }}", "then": told})
    label = _label(agent, name)
    found = f"({label} | default(none))"
    answer = f"{{{{ {found} if {found} is string else {found} | tojson }}}}"
    return [
        {
            "name": label,
            "kind": "workbook",
            "task": name,
            "input": f"{{{{ {agent.word}_arguments.given }}}}",
            "spec": {"policy": {"rules": rules}},
        },
        {
            "name": f"{label}_answer",
            "kind": "noop",
            "spec": _always({**_answered(agent, answer), "result": f"{{{{ {found} }}}}"}),
        },
    ]


def _always(then: dict[str, Any]) -> dict[str, Any]:
    return {"policy": {"rules": [{"else": {"then": then}}]}}


def _rules_of(agent: _Agent, name: str) -> list[Tree]:
    """Return the rules that the task has in the workbook, or a task there that it calls."""
    seen: set[str] = set()
    while name in agent.workbook and name not in seen:
        seen.add(name)
        task = mapping_of(agent.workbook[name].get("tool"))
        rules = mapping_of(mapping_of(task.get("spec")).get("policy")).get("rules")
        if rules is not None or text_of(task.get("kind")) != "workbook":
            return items_of(rules)
        name = text_of(task.get("task") or task.get("name")) or ""
    return []


def _told(agent: _Agent, text: str) -> dict[str, Any]:
    """Write the end of a call that runs no tool: the model reads why."""
    return {**_answered(agent, f"{{{{ {{'error': {_joined(text)}}} | tojson }}}}"), "result": {"error": text}}


def _joined(text: str) -> str:
    """Return a text with templates as one expression."""
    parts = re.split(r"\{\{ (.*?) \}\}", text)
    return " ~ ".join(
        f"({part})" if index % 2 else json.dumps(part) for index, part in enumerate(parts) if part
    )


def _answered(agent: _Agent, content: str) -> dict[str, Any]:
    """Write the end of a call: a message with its answer joins the conversation."""
    message = {"role": "tool", "tool_call_id": f"{{{{ {agent.call}.id }}}}", "content": content}
    return {"do": "break", "set": {f"ctx.{agent.messages}": {"append": message}}}
