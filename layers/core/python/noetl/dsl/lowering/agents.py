"""``kind: agent``: a step that sends requests to a model, and a step that runs its tools.

Both are written out as steps of the document before it is lowered, so that everything behind this module sees steps that an
author could have written: each request to the model is a run of the step, each tool call an item of a loop.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any

from noetl.dsl.diagnostics import Diagnostics, listing
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.agent_calls import (
    NO_WORD,
    Agent,
    Tool,
    labels_of,
    thens_of,
    tools_step,
    with_entries,
)
from noetl.dsl.lowering.context import Lowering
from noetl.dsl.lowering.tasks import canonical_params, check_params, without_empty
from noetl.dsl.lowering.workbook import expand, workbook_entries
from noetl.dsl.task_signature import signature_of
from noetl.dsl.yaml_text.tree import (
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
_CALLS = f"{_MESSAGE}.tool_calls | default([], true)"
_RESULT = {
    "content": f"{{{{ {_MESSAGE}.content | default(none) }}}}",
    "tool_calls": f"{{{{ {_CALLS} }}}}",
    "finish_reason": "{{ output.data.choices[0].finish_reason | default(none) }}",
    "model": "{{ output.data.model | default(none) }}",
    "usage": "{{ output.data.usage | default({}, true) }}",
}
_REPLY = f"({_MESSAGE} | combine({{'role': 'assistant'}}))"
"""The answer as a message; its role is not for the model to choose."""
_NO_CHOICES = "the answer has no choices: is `url` an address of chat completions?"
_NO_LIST = "the tool_calls of the answer are no list: is `url` an address of chat completions?"
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
        if _is_agent(block):
            steps += _written_out(lowering, block, workbook, names, known.union(_names_given(block, blocks)))
        else:
            steps.append(block)
    key = root.entries["workflow"][0]
    return Mapping({**root.entries, "workflow": (key, Sequence(steps, workflow.pos))}, root.pos)


def _is_agent(block: Mapping) -> bool:
    return text_of(mapping_of(block.get("tool")).get("kind")) == "agent"


def _names_of(root: Mapping) -> set[str]:
    """Return the names of the workload, and those that are set anywhere."""
    schema = mapping_of(mapping_of(root.get("input")).get("properties"))
    return {*mapping_of(root.get("workload")).entries, *schema.entries, *_names_set(root)}


def _names_set(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Sequence):
        for item in tree.items:
            yield from _names_set(item)
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from _names_set(value)
            names = mapping_of(value).entries if key.text in ("set", "set_ctx", "vars") else ()
            yield from (name.removeprefix("ctx.").removeprefix("vars.") for name in names)


def _names_given(block: Mapping, blocks: list[Mapping]) -> Iterator[str]:
    """Yield the arguments that a step has, and those that arcs to it bring."""
    yield from mapping_of(block.get("input", "args")).entries
    for other in blocks:
        routes = other.get("next")
        arcs = items_of(routes if isinstance(routes, Sequence) else mapping_of(routes).get("arcs"))
        for arc in map(mapping_of, arcs):
            if text_of(arc.get("step")) == text_of(block.get("step")):
                yield from mapping_of(arc.get("input", "args")).entries


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
    agent = Agent(step, block, tool, given, tools, most, spec.default_timeout)
    if tools and agent.calls in names:
        lowering.diagnostics.error(
            "duplicate-step",
            f"the tools of the agent {step!r} run as a step called {agent.calls!r}, and there is one already",
            block.key_pos("step"),
            hint="rename one of them",
        )
    if len(lowering.diagnostics) > before:
        return [with_entries(block, tool=made_tree({"kind": "noop"}, agent.pos))]
    _check_word(lowering, agent)
    lowering.agents[agent.calls] = step
    return [_asking(agent), tools_step(agent)] if tools else [_asking(agent)]


def _check_word(lowering: Lowering, agent: Agent) -> None:
    """Report two agents whose conversations would be one variable."""
    for other in lowering.agents.values():
        if NO_WORD.sub("_", other) == agent.word and other != agent.step:
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
    join = mapping_of(block.get("spec")).get("join")
    if join is not None and text_of(join) != "sync":
        lowering.diagnostics.error(
            "wrong-value",
            "an agent has no `join`: its tools lead back to it in the middle of a conversation",
            join.pos,
            hint="give the join to a step before the agent",
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
) -> dict[str, Tool]:
    """Return the tasks that the model may call, by name.

    What is wrong with one of them is reported when its call is lowered.
    """
    found: dict[str, Tool] = {}
    quiet = Lowering(lowering.kinds, Diagnostics(), workbook=workbook)
    for item in items_of(given.get("tools")):
        entry = mapping_of(item)
        tree = entry.get("task") if isinstance(item, Mapping) else item
        name = text_of(tree) or ""
        if tree is None or not _can_be_called(lowering, tree, name, workbook, found):
            continue
        task, _ = expand(quiet, mapping_of(made_tree({"kind": "workbook", "task": name}, tree.pos)))
        _check_tool(lowering, task, entry.get("parameters"))
        own = mapping_of(workbook[name].get("tool")).get("desc")
        text = entry.get("description") or workbook[name].get("desc") or own or task.get("desc")
        function = {
            "name": name,
            **({"description": text} if text is not None else {}),
            "parameters": entry.get("parameters") or signature_of(task, known),
        }
        found[name] = Tool(function, task)
    return found


def _check_tool(lowering: Lowering, task: Mapping, parameters: Tree | None) -> None:
    """Report what a task cannot do as a tool, and computed parameters."""
    for _, then in thens_of(task):
        if text_of(then.get("do")) == "jump":
            lowering.diagnostics.error(
                "misplaced-key",
                "a tool of an agent cannot jump",
                then.key_pos("do"),
                hint="call a playbook that has these tasks",
            )
    properties = mapping_of(parameters).get("properties")
    for tree in (parameters, properties):
        if tree is not None and not isinstance(tree, Mapping):
            lowering.diagnostics.error(
                "misplaced-template",
                "the names of a tool's arguments cannot be computed",
                tree.pos,
                hint="write them out: parameters: { type: object, properties: { … } }",
            )


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
    elif labels_of(name) & {"arguments", "call", *(label for other in found for label in labels_of(other))}:
        problem, code = f"the tool {name!r} would have the label of another task in the history", "bad-name"
        hint = "rename the task, or another tool whose name it begins or ends with"
    if problem:
        lowering.diagnostics.error(code, problem, tree.pos, hint=hint)
    return not problem


def _asking(agent: Agent) -> Mapping:
    """Write the step that makes one request to the model."""
    opening = {"name": agent.opening, "kind": "noop", "input": {"messages": _first(agent)}}
    tasks = made_tree([_turn(agent), opening, _request(agent)], agent.pos)
    if not agent.tools:
        return with_entries(agent.block, tool=tasks)
    routes = mapping_of(agent.block.get("next"))
    act = {
        "step": agent.calls,
        "on": "done",
        "when": "{{ output.data.tool_calls | length > 0 }}",
        "input": agent.passing("-output.data.requests"),
    }
    arcs = made_tree([act, *items_of(routes.get("arcs"))], agent.pos)
    return with_entries(agent.block, tool=tasks, next=with_entries(routes, arcs=arcs))


def _turn(agent: Agent) -> dict[str, Any]:
    """Write the task that counts requests: only the first needs the opening."""
    before = f"(input.{agent.requests} | default(0))"
    number = f"({before} if {before} > 0 and {agent.continues} else 0) + 1"
    opened = {"when": "{{ output.data.number > 1 }}", "then": {"do": "jump", "to": agent.request}}
    return {
        "name": agent.turn,
        "kind": "noop",
        "input": {"number": f"{{{{ {number} }}}}", "most": _most(agent)},
        "spec": {"policy": {"rules": [opened]}},
    }


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
        **({"tools": [{"type": "function", "function": one.function} for one in tools]} if tools else {}),
        **{key.text: value for key, value in mapping_of(agent.params.get("body")).items()},
    }
    sent = {name: agent.params.get(name) for name in ("url", "auth", "headers") if agent.params.has(name)}
    variable = f"ctx.{agent.messages}"
    answered = "output.status == 'ok'"
    result = {**_RESULT, "requests": f"{{{{ {agent.turn}.number }}}}"}
    rules = [
        {
            "when": f"{{{{ {answered} and {_MESSAGE} | default(none) is not mapping }}}}",
            "then": {"do": "fail", "message": _NO_CHOICES},
        },
        {
            "when": f"{{{{ {answered} and ({_CALLS} is string or {_CALLS} is mapping or {_CALLS} is not iterable) }}}}",
            "then": {"do": "fail", "message": _NO_LIST},
        },
        {
            "when": f"{{{{ {answered} and {_CALLS} | length > 0 and {agent.turn}.number >= {agent.turn}.most }}}}",
            "then": {"do": "fail", "message": f"{_TOO_MANY} {{{{ {agent.turn}.most }}}}"},
        },
        {
            "when": f"{{{{ {answered} and {agent.turn}.number > 1 }}}}",
            "then": {"set": {variable: {"append": f"{{{{ {_REPLY} }}}}"}}, "result": result},
        },
        {
            "when": f"{{{{ {answered} }}}}",
            "then": {"set": {variable: f"{{{{ {agent.opening}.messages + [{_REPLY}] }}}}"}, "result": result},
        },
    ]
    kept = {name: agent.tool.get(name) for name in ("desc", "retry", "set") if agent.tool.has(name)}
    spec = {"timeout": agent.seconds, **_plain_entries(agent.tool.get("spec")), "policy": {"rules": rules}}
    return {
        "name": agent.request,
        "kind": "http",
        "method": "POST",
        **sent,
        "body": body,
        **kept,
        "spec": spec,
    }


def _plain_entries(tree: Tree | None) -> dict[str, Any]:
    return {key.text: value for key, value in mapping_of(tree).items()}
