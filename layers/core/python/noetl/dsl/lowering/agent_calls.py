"""The step that runs the tools of an agent: each call of the model is an item of its loop."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.tree import Mapping, Tree, items_of, made_tree, mapping_of, text_of

SAME_INPUT = "{{ args }}"
"""The input of an arc within one visit of the agent."""


@dataclass(frozen=True, slots=True)
class Agent:
    """A step with an agent, and the names of what is written for it."""

    step: str
    block: Mapping
    tool: Mapping
    params: Mapping
    tools: dict[str, dict[str, Any]]
    """The tasks that the model may call, by name: the function that each of them is to the model."""
    workbook: dict[str, Mapping]
    most: int
    """Requests of a conversation unless it says otherwise."""
    seconds: float
    """The longest time of a request unless it says otherwise."""

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
    def continues(self) -> str:
        """The condition that the last message is of a tool; otherwise a conversation begins."""
        return f"((ctx.{self.messages} | default([{{'role': ''}}], true) | last).role == 'tool')"

    @property
    def so_far(self) -> str:
        """The messages of the conversation, as an expression."""
        return f"(ctx.{self.messages} if {self.continues} else {self.opening}.messages)"


def tools_step(agent: Agent) -> Tree:
    """Write the step that runs the tools which one answer of the model calls."""
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
            "next": {"arcs": [{"step": agent.step, "input": SAME_INPUT}]},
        },
        agent.pos,
    )


def _dispatch(agent: Agent) -> dict[str, Any]:
    """Write the task that reads a call and jumps to the tool which it names.

    The model gets an error to read where the call is wrong.
    """
    given = f"{agent.call}.function.arguments | default('{{}}', true)"
    named = f"({agent.call}.function.name | default(''))"
    rules: list[dict[str, Any]] = [
        {
            "when": "{{ output.status == 'error' or output.data.given is not mapping }}",
            "then": _refusal(agent, "the arguments are not an object of JSON"),
        },
    ]
    for name, function in agent.tools.items():
        is_it = f"{named} == {json.dumps(name)}"
        names = _closed(function["parameters"])
        if names is not None:
            unknown = f"output.data.given | list | reject('in', {json.dumps(names)}) | list"
            text = f"{name} has no argument {{{{ {unknown} | join(', ') }}}}; its arguments: {', '.join(names) or 'none'}"
            rules.append(
                {"when": f"{{{{ {is_it} and {unknown} | length > 0 }}}}", "then": _refusal(agent, text)}
            )
        first = f"{_label(agent, name)}_input" if _own_input(agent, name).entries else _label(agent, name)
        rules.append({"when": f"{{{{ {is_it} }}}}", "then": {"do": "jump", "to": first}})
    unknown = f"there is no tool {{{{ {named} }}}}; tools: {', '.join(agent.tools)}"
    return {
        "name": f"{agent.word}_arguments",
        "kind": "noop",
        "input": {"given": f"{{{{ ({given}) | fromjson if ({given}) is string else {given} }}}}"},
        "spec": {"policy": {"rules": [*rules, {"else": {"then": _refusal(agent, unknown)}}]}},
    }


def _closed(schema: Any) -> list[str] | None:
    """Return the arguments that a tool has; None where it may have others."""
    plain = schema.plain() if isinstance(schema, Mapping) else schema
    properties = plain.get("properties") if isinstance(plain, dict) else None
    if not isinstance(properties, dict) or plain.get("additionalProperties") is True:
        return None
    return list(properties)


def _label(agent: Agent, name: str) -> str:
    return f"{agent.word}_{name}"


def _called(agent: Agent, name: str) -> list[dict[str, Any]]:
    """Write the call of one tool, and the task that passes its result on.

    The tool's own rules come first, and may fail the step. An error that they leave is one for the model to read.
    """
    failed = "{{ {'error': output.error.message} | tojson }}"
    reply = {**_reply(agent, failed), "result": {"error": "{{ output.error }}"}}
    rules: list[Any] = [*_rules_of(agent, name)]
    if all(mapping_of(rule).has("when") for rule in rules):
        rules.append({"when": "{{ output.error | default(none) is not none }}", "then": reply})
    label = _label(agent, name)
    found = f"({label}{_part_of(agent, name)} | default(none))"
    answer = f"{{{{ {found} if {found} is string else {found} | tojson }}}}"
    given = f"{agent.word}_arguments.given"
    own = _own_input(agent, name)
    defaults = [{"name": f"{label}_input", "kind": "noop", "input": own}] if own.entries else []
    return [
        *defaults,
        {
            "name": label,
            "kind": "workbook",
            "task": name,
            "input": f"{{{{ {label}_input | combine({given}) }}}}" if defaults else f"{{{{ {given} }}}}",
            "spec": {"policy": {"rules": rules}},
        },
        {
            "name": f"{label}_answer",
            "kind": "noop",
            "spec": _always({**_reply(agent, answer), "result": f"{{{{ {found} }}}}"}),
        },
    ]


def _part_of(agent: Agent, name: str) -> str:
    """Return what of a tool's result the model reads: of an HTTP answer its body."""
    tool = mapping_of(agent.workbook[name].get("tool"))
    whole = text_of(tool.get("kind")) != "http" or mapping_of(tool.get("output")).has("path")
    return "" if whole else ".data"


def _own_input(agent: Agent, name: str) -> Mapping:
    """Return the input that the task has in the workbook: arguments of the model win over it."""
    return mapping_of(mapping_of(agent.workbook[name].get("tool")).get("input", "args", "with"))


def _always(then: dict[str, Any]) -> dict[str, Any]:
    return {"policy": {"rules": [{"else": {"then": then}}]}}


def _rules_of(agent: Agent, name: str) -> list[Tree]:
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


def _refusal(agent: Agent, text: str) -> dict[str, Any]:
    """Write the end of a call that runs no tool, with the reason for the model to read."""
    return {**_reply(agent, f"{{{{ {{'error': {_joined(text)}}} | tojson }}}}"), "result": {"error": text}}


def _joined(text: str) -> str:
    """Return a text with templates as one expression."""
    parts = re.split(r"\{\{ (.*?) \}\}", text)
    return " ~ ".join(
        f"({part})" if index % 2 else json.dumps(part) for index, part in enumerate(parts) if part
    )


def _reply(agent: Agent, content: str) -> dict[str, Any]:
    """Write the end of a call: a message with its answer joins the conversation."""
    message = {"role": "tool", "tool_call_id": f"{{{{ {agent.call}.id | default('') }}}}", "content": content}
    return {"do": "break", "set": {f"ctx.{agent.messages}": {"append": message}}}
