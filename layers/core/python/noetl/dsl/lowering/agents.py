"""``kind: agent``: a step that sends requests to a model, and a step that runs its tools.

Both are written out as steps of the document before it is lowered, so that everything behind this module sees steps that an
author could have written: each request to the model is a run of the step, each tool call an item of a loop.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

from noetl.dsl.diagnostics import listing
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.agent_calls import SAME_INPUT, Agent, tools_step
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.lowering.tasks import canonical_params, check_params, without_empty
from noetl.dsl.lowering.workbook import workbook_entries
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
    most = lowering.kinds.schema("agent")["properties"]["max_calls"]["default"]
    agent = Agent(step, block, tool, given, tools, workbook, most, spec.default_timeout)
    if tools and agent.calls in names:
        lowering.diagnostics.error(
            "duplicate-step",
            f"the tools of the agent {step!r} run as a step called {agent.calls!r}, and there is one already",
            block.key_pos("step"),
            hint="rename one of them",
        )
    if len(lowering.diagnostics) > before:
        return [_with(block, tool=made_tree({"kind": "noop"}, agent.pos))]
    _check_word(lowering, agent)
    lowering.agents[agent.calls] = step
    return [_asking(agent), tools_step(agent)] if tools else [_asking(agent)]


def _check_word(lowering: Lowering, agent: Agent) -> None:
    """Report two agents whose conversations would be one variable."""
    for other in lowering.agents.values():
        if re.sub(r"\W", "_", other) == agent.word and other != agent.step:
            lowering.diagnostics.error(
                "duplicate-name",
                f"the agents {other!r} and {agent.step!r} would both keep their conversation in ctx.{agent.messages}",
                agent.block.key_pos("step"),
                hint="rename one of them",
            )


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
    """Return the functions that the model may call, by name."""
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


def _asking(agent: Agent) -> Mapping:
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
    wanted = "{{ output.data.tool_calls | length > 0 }}"
    act = {"step": agent.calls, "on": "done", "when": wanted, "input": SAME_INPUT}
    arcs = made_tree([act, *items_of(routes.get("arcs"))], agent.pos)
    return _with(agent.block, tool=tasks, next=_with(routes, arcs=arcs))


def _first(agent: Agent) -> Any:
    messages = agent.params.get("messages")
    if messages is not None:
        return messages
    system = agent.params.get("system")
    instructions = [] if system is None else [{"role": "system", "content": system}]
    return [*instructions, {"role": "user", "content": agent.params.get("prompt")}]


def _most(agent: Agent) -> Any:
    return agent.params.get("max_calls") or agent.most


def _request(agent: Agent) -> dict[str, Any]:
    """Write the request to the model, whose answer is the result of the step."""
    model, tools = agent.params.get("model"), agent.tools.values()
    body = {
        **({} if model is None else {"model": model}),
        "messages": f"{{{{ {agent.so_far} }}}}",
        **({"tools": [{"type": "function", "function": one} for one in tools]} if tools else {}),
        **{key.text: value for key, value in mapping_of(agent.params.get("body")).items()},
    }
    sent = {name: agent.params.get(name) for name in ("url", "auth", "headers") if agent.params.has(name)}
    requests = f"({agent.so_far} | selectattr('role', 'equalto', 'assistant') | list | length)"
    before = f"({agent.opening}.messages | selectattr('role', 'equalto', 'assistant') | list | length)"
    variable = f"ctx.{agent.messages}"
    rules = [
        {
            "when": "{{ output.status == 'ok' and output.data.choices | default([], true) | length == 0 }}",
            "then": {"do": "fail", "message": _NO_CHOICES},
        },
        {
            "when": f"{{{{ output.status == 'ok' and {_MESSAGE}.tool_calls | default([], true) | length > 0"
            f" and {requests} - {before} + 1 >= {agent.opening}.most }}}}",
            "then": {"do": "fail", "message": f"{_TOO_MANY} {{{{ {agent.opening}.most }}}}"},
        },
        {
            "when": f"{{{{ output.status == 'ok' and {agent.continues} }}}}",
            "then": {"set": {variable: {"append": f"{{{{ {_MESSAGE} }}}}"}}, "result": _RESULT},
        },
        {
            "when": "{{ output.status == 'ok' }}",
            "then": {
                "set": {variable: f"{{{{ {agent.opening}.messages + [{_MESSAGE}] }}}}"},
                "result": _RESULT,
            },
        },
    ]
    kept = {name: agent.tool.get(name) for name in ("desc", "retry", "set") if agent.tool.has(name)}
    spec = {"timeout": agent.seconds, **_plain_entries(agent.tool.get("spec")), "policy": {"rules": rules}}
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
