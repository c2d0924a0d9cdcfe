"""The step that runs the tools of an agent: each call of the model is an item of its loop."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from noetl.dsl.expressions import has_template
from noetl.dsl.program import Pos
from noetl.dsl.yaml_text.tree import Key, Mapping, Sequence, Tree, items_of, made_tree, mapping_of, text_of

NO_WORD = re.compile(r"\W")
"""What a name in templates cannot have."""
_INPUT = ("input", "args", "with")
_TEMPLATE = re.compile(r"\{\{(?P<code>(?:(?!\}\}).)*)\}\}", re.DOTALL)
_FAILURES = ("failed", "failed_by_rule")
"""Ends of an agent that its tools can have."""
_ENDS = ("continue", "break", "skip")
"""What a rule of a tool may do once its result is there."""


@dataclass(frozen=True, slots=True)
class Tool:
    """A task of the workbook that the model may call.

    ``function``: what it is to the model. ``task``: as the compiler puts it in the place of a call.
    """

    function: dict[str, Any]
    task: Mapping


@dataclass(frozen=True, slots=True)
class Agent:
    """A step with an agent, and the names of what is written for it."""

    step: str
    block: Mapping
    tool: Mapping
    params: Mapping
    tools: dict[str, Tool]
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
        return NO_WORD.sub("_", self.step)

    @property
    def messages(self) -> str:
        """The variable of ``ctx`` that holds the conversation."""
        return f"{self.word}_messages"

    @property
    def opening(self) -> str:
        """The task that makes the messages which the conversation begins with."""
        return f"{self.word}_opening"

    @property
    def turn(self) -> str:
        """The task that counts the requests of the conversation."""
        return f"{self.word}_turn"

    @property
    def request(self) -> str:
        """The task that asks the model."""
        return f"{self.step}_task"

    @property
    def requests(self) -> str:
        """The argument with the number of requests; negative while their tools run."""
        return f"{self.word}_requests"

    def passing(self, number: str) -> str:
        """Write the input of an arc within a visit: the step's own, and the requests so far."""
        return f"{{{{ args | combine({{{self.requests!r}: {number}}}) }}}}"

    @property
    def call(self) -> str:
        """The name of a tool call in its loop."""
        return f"{self.word}_call"

    @property
    def continues(self) -> str:
        """The condition that the step comes from its tools; otherwise a conversation begins."""
        return f"((ctx.{self.messages} | default([{{'role': ''}}], true) | last).role == 'tool')"

    @property
    def so_far(self) -> str:
        """The messages of the conversation, as an expression."""
        return f"(ctx.{self.messages} if {self.turn}.number > 1 else {self.opening}.messages)"


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
            "next": {
                "arcs": [
                    {"step": agent.step, "input": agent.passing(f"-args.{agent.requests}")},
                    *_after_failures(agent),
                ]
            },
        },
        agent.pos,
    )


def _after_failures(agent: Agent) -> Iterator[Tree]:
    """Yield the agent's arcs for failures: a tool whose rule fails, fails the agent."""
    for arc in map(mapping_of, items_of(mapping_of(agent.block.get("next")).get("arcs"))):
        ends = arc.get("on")
        words = [text_of(one) for one in (ends.items if isinstance(ends, Sequence) else (ends,))]
        kept = [word for word in words if word in _FAILURES]
        if ends is not None and kept:
            yield with_entries(arc, on=made_tree(kept, ends.pos))


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
    for name, tool in agent.tools.items():
        is_it = f"{named} == {json.dumps(name)}"
        names = _closed(tool.function["parameters"])
        if names is not None:
            unknown = f"output.data.given | list | reject('in', {json.dumps(names)}) | list"
            text = f"{name} has no argument {{{{ {unknown} | join(', ') }}}}; its arguments: {', '.join(names) or 'none'}"
            rules.append(
                {"when": f"{{{{ {is_it} and {unknown} | length > 0 }}}}", "then": _refusal(agent, text)}
            )
        first = _label(agent, name) + ("_input" if _own_input(agent, name) is not None else "")
        rules.append({"when": f"{{{{ {is_it} }}}}", "then": {"do": "jump", "to": first}})
    unknown = f"there is no tool {{{{ {named} }}}}; tools: {', '.join(agent.tools)}"
    return {
        "name": f"{agent.word}_arguments",
        "kind": "noop",
        "input": {"given": f"{{{{ ({given}) | fromjson if ({given}) is string else {given} }}}}"},
        "spec": {"policy": {"rules": [*rules, {"else": {"then": _refusal(agent, unknown)}}]}},
    }


def _closed(schema: Any) -> list[str] | None:
    """Return the arguments that a tool has; None where its schema allows others."""
    plain = schema.plain() if isinstance(schema, Mapping) else schema
    if plain.get("additionalProperties") is True:
        return None
    properties = plain.get("properties")
    return list(properties) if isinstance(properties, dict) else []


def _label(agent: Agent, name: str) -> str:
    return f"{agent.word}_{NO_WORD.sub('_', name)}"


def labels_of(name: str) -> set[str]:
    """Return what the labels of a tool's tasks end with."""
    return {NO_WORD.sub("_", name) + end for end in ("", "_input", "_answer")}


def _called(agent: Agent, name: str) -> list[dict[str, Any]]:
    """Write the call of one tool, and the task that passes its result on.

    The tool's own rules come first, and may fail the step. An error that they leave is one for the model to read.
    """
    failed = "{{ {'error': output.error.message | default('it did not end as it should', true)} | tojson }}"
    reply = {**_reply(agent, failed), "result": {"error": "{{ output.error }}"}}
    rules: list[Any] = [
        rule for own in thens_of(agent.tools[name].task) for rule in _kept(agent, *own, reply)
    ]
    fails = {"when": "{{ output.error | default(none) is not none }}", "then": reply}
    if all(mapping_of(rule).has("when") for rule in rules):
        rules.append(fails)
    label = _label(agent, name)
    found = f"({label}{_part_of(agent, name)} | default(none))"
    answer = f"{{{{ {found} if {found} is string else {found} | tojson }}}}"
    given = f"{agent.word}_arguments.given"
    own = _own_input(agent, name)
    before = {"name": f"{label}_input", "kind": "noop", "input": own, "spec": {"policy": {"rules": [fails]}}}
    defaults = [] if own is None else [before]
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
    tool = agent.tools[name].task
    whole = text_of(tool.get("kind")) != "http" or mapping_of(tool.get("output")).has("path")
    return "" if whole else ".data"


def _own_input(agent: Agent, name: str) -> Tree | None:
    """Return the input that the task has in the workbook: arguments of the model win over it."""
    own = agent.tools[name].task.get(*_INPUT)
    return None if isinstance(own, Mapping) and not own.entries else own


def _always(then: dict[str, Any]) -> dict[str, Any]:
    return {"policy": {"rules": [{"else": {"then": then}}]}}


def with_entries(mapping: Mapping, **values: Tree) -> Mapping:
    """Return a mapping with some entries replaced or added."""
    entries = {
        name: (mapping.entries[name][0] if mapping.has(name) else Key(name, value.pos), value)
        for name, value in values.items()
    }
    return Mapping({**mapping.entries, **entries}, mapping.pos)


def thens_of(task: Mapping) -> Iterator[tuple[Mapping, Mapping]]:
    """Yield each rule of a task with what it does."""
    for rule in items_of(mapping_of(mapping_of(task.get("spec")).get("policy")).get("rules")):
        block = mapping_of(rule)
        owner = mapping_of(block.get("else")) if block.has("else") else block
        yield block, mapping_of(owner.get("then"))


def _kept(agent: Agent, block: Mapping, then: Mapping, failed: dict[str, Any]) -> Iterator[Tree]:
    """Yield a rule of a tool as it is in the loop of calls.

    Every call ends with a message to the model: what would end it without one continues with the answer of the call. A result
    in place of the task's is what the model reads; of retries that are used up it reads the error.
    """
    does = text_of(then.get("do")) or "continue"
    guard = _TEMPLATE.fullmatch((text_of(block.get("when")) or "{{ true }}").strip())
    if does == "retry" and guard is not None:
        attempts = then.get("attempts")
        number = "3" if attempts is None else _expression(attempts)
        again = f"{{{{ ({guard['code']}) and _attempt < ({number}) }}}}"
        yield with_entries(block.without("else"), when=made_tree(again, block.pos), then=then)
        yield made_tree({"when": f"{{{{ {guard['code']} }}}}", "then": failed}, block.pos)
        return
    result = made_tree("{{ none }}", block.pos) if does == "skip" else then.get("result")
    shown = None if result is None or does not in _ENDS else _expression(result)
    if shown is not None:
        reply = _reply(agent, f"{{{{ ({shown}) if ({shown}) is string else ({shown}) | tojson }}}}")
        written = {key.text: value for key, value in mapping_of(then.get("set")).items()}
        ends = {"do": "break", "set": {**written, **reply["set"]}, "result": result}
        made = {name: made_tree(one, block.pos) for name, one in ends.items()}
        then = with_entries(then.without("message"), **made)
    elif does == "break":
        then = with_entries(then, do=made_tree("continue", block.pos))
    if block.has("else"):
        yield with_entries(block, **{"else": made_tree({"then": then}, block.pos)})
    else:
        yield with_entries(block, then=then)


def _expression(tree: Tree) -> str | None:
    """Return a value with templates as one expression; None where a template has statements."""
    if isinstance(tree, Mapping):
        parts = {key.text: _expression(value) for key, value in tree.items()}
        inner = [f"{json.dumps(name)}: {part}" for name, part in parts.items()]
        return None if None in parts.values() else f"{{{', '.join(inner)}}}"
    if isinstance(tree, Sequence):
        items = [_expression(item) for item in tree.items]
        return None if None in items else f"[{', '.join(map(str, items))}]"
    value = tree.value
    if not isinstance(value, str) or not has_template(value):
        return repr(value) if value is None or isinstance(value, bool | int | float) else json.dumps(value)
    whole = _TEMPLATE.fullmatch(value.strip())
    return f"({whole['code']})" if whole else None


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
