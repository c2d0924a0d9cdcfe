"""The steps that the compiler writes for an agent."""

from __future__ import annotations

import pytest

from noetl.dsl.program import Expr, ResultAction, tasks_in

PLAYBOOK = """
workbook:
  fetch: {{ kind: http, url: "https://api.example.com" }}
  prices: {call}
workflow:
  - {{ step: ask, tool: {{ kind: agent, url: "https://model.example.com", prompt: hello, tools: [prices] }} }}
"""


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        ("{ kind: workbook, task: fetch }", "(ask_prices.data | default(none))"),
        ("{ kind: workbook, task: fetch, output: { path: $.data.items } }", "(ask_prices | default(none))"),
    ],
)
def test_the_model_reads_the_body_of_an_http_answer_or_the_part_that_the_task_takes(program, call, shown):
    step = program(PLAYBOOK.format(call=call)).step("ask_tools")
    (answer,) = [task for task in tasks_in((step.body,)) if task.label == "ask_prices_answer"]
    (result,) = [one.value for one in answer.rules[0].actions if isinstance(one, ResultAction)]
    assert isinstance(result, Expr) and result.source == shown
