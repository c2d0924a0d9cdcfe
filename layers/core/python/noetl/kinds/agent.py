"""The kind ``agent``: a model that may call tasks of the workbook.

The compiler writes it as two steps (``noetl.dsl.lowering.agents``): a request to the model, and a loop over the tools that it calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from noetl.domain.kinds import KindSpec, ParamProblem
from noetl.kinds.support.base import KindParams

SPEC = KindSpec(
    name="agent",
    summary="Asks a model, which may call tasks of the workbook, for an answer.",
    pool="control",
    default_timeout=120.0,
    aliases={"endpoint": "url"},
    result_fields=("content", "tool_calls", "finish_reason", "model", "usage", "requests"),
    lowered=True,
)

EXAMPLE: dict[str, Any] = {
    "url": "https://api.example.com/v1/chat/completions",
    "auth": "model_api",
    "model": "small-1",
    "prompt": "What is the weather in Oslo?",
    "tools": ["weather"],
    "max_calls": 10,
}

_OWN_FIELDS = ("messages", "model", "tools")


class AgentTool(BaseModel):
    """A task that the model may call, and its description."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    task: Annotated[str, Field(min_length=1, description="Name of a task in `workbook`.")]
    description: Annotated[str | None, Field(description="What it does; without it the task's `desc`.")] = (
        None
    )
    parameters: Annotated[
        dict[str, Any] | None,
        Field(description="JSON Schema of its arguments; without it they are read from the task."),
    ] = None


class Params(KindParams):
    """The model, what it is asked, and the tasks that it may call."""

    refused: ClassVar[Mapping[str, str]] = {
        "framework": "this kind asks a model itself; to run a playbook as an agent, write kind: playbook, path: …, payload: …",
        "entrypoint": "this kind asks a model itself; to run a playbook as an agent, write kind: playbook, path: …, payload: …",
        "input": "put values into the prompt, or give them to the step: input: { … }",
    }

    url: Annotated[
        str, Field(min_length=1, description="Address of an API that speaks OpenAI's chat completions.")
    ]
    model: Annotated[str | None, Field(description="Name of the model, where the API wants one.")] = None
    auth: Annotated[str | dict[str, Any] | None, Field(description="A credential by name, as in `http`.")] = (
        None
    )
    headers: Annotated[dict[str, Any], Field(description="Further headers of the requests.")] = Field(
        default_factory=dict
    )
    system: Annotated[str | None, Field(description="The instructions of the model.")] = None
    prompt: Annotated[str | None, Field(description="What it is asked; or `messages`.")] = None
    messages: Annotated[
        list[Any] | None, Field(description="The messages that the conversation begins with.")
    ] = None
    tools: Annotated[
        list[str | AgentTool], Field(max_length=64, description="Tasks of the workbook that it may call.")
    ] = Field(default_factory=list)
    body: Annotated[
        dict[str, Any], Field(description="Further fields of the requests, such as `temperature`.")
    ] = Field(default_factory=dict)
    max_calls: Annotated[
        int, Field(ge=1, le=1000, description="Requests of one conversation to the model, at most.")
    ] = 20
    max_in_flight: Annotated[
        int, Field(ge=1, le=64, description="Calls of one answer that run at the same time.")
    ] = 1


def check(params: Mapping[str, Any]) -> Iterator[ParamProblem]:
    """Rules over several parameters."""
    questions = [name for name in ("prompt", "messages") if params.get(name) is not None]
    if not questions:
        yield ParamProblem((), "the model is asked nothing", "add `prompt: …`, or `messages: […]`")
    if len(questions) == 2:
        yield ParamProblem(("messages",), "`prompt` and `messages` both say what is asked", "keep one")
    if params.get("system") is not None and params.get("messages") is not None:
        hint = "make it the first message: { role: system, content: … }"
        yield ParamProblem(("system",), "`system` and `messages` are both there", hint)
    body = params.get("body")
    for name in _OWN_FIELDS:
        if isinstance(body, Mapping) and name in body:
            yield ParamProblem(("body", name), f"`{name}` of the request is a parameter of its own", None)
