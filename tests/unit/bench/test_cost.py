"""The cost model runs, counts what the queues and functions really do, and prices it by its table."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

from infra.environments import load_environment
from tests.bench import cost_page
from tests.bench.cost import BATCHES, MILLION, measure, report, workloads
from tests.bench.meters import requests, units
from tests.bench.prices import PRICES, SQS_UNIT
from tests.parts import over, repeated

CALLS = (".send", ".receive", ".delete", ".visibility")


IDLE = [
    {
        "line": "idle",
        "env": name,
        "dollars_per_month": {"database": dollars, "keys": 3.0, "total": dollars + 3.0},
    }
    for name, dollars in (("dev", 0.2), ("staging", 88.0), ("prod", 263.0))
]
"""Bills as tests/infra/test_pages.py computes them of templates, which takes a synthesis each."""


COLUMNS = repeated(gate=7, full=8)
"""Columns of the page that are computed. The last, of loops, takes two thirds of the time: without it, loops are short."""


@pytest.fixture(scope="module")
def lines():
    *chains, loop = workloads(quick=False)
    if COLUMNS == 7:
        loop = replace(workloads(quick=True)[-1], executions=1)
    return [*report(load_environment("prod"), measured=[*chains, loop]), *IDLE]


@pytest.fixture(scope="module")
def chains(lines):
    return [line for line in lines if line.get("workload") == "chain"]


def test_each_workload_is_priced_at_each_batch(lines):
    told = [
        (line["workload"], line["average_batch"]["engine"]) for line in lines if line["line"] == "transitions"
    ]
    assert [round(batch) for name, batch in told if name == "chain"] == list(BATCHES)
    assert len(told) == 3 * len(BATCHES)
    assert lines[0]["source"] == "from general knowledge, not looked up"


@pytest.mark.parametrize("place", range(len(BATCHES)))
def test_a_chain_decides_each_step_once_and_sends_few_commands(chains, place):
    """Each outcome is decided, by request or from the queue. A command is sent to begin a chain, and when a worker's turn is over."""
    counts, batch = chains[place]["counts_per_million"], BATCHES[place]
    starts = MILLION / chains[place]["per_execution"]
    # Threads of the model's worker meet in one request or in two, so batches differ a little.
    assert math.isclose(decisions(counts) * batch, MILLION, rel_tol=0.1)
    assert counts["api.requests"] == starts <= counts["commands.messages"] <= 2 * starts
    assert math.isclose(counts["worker.invocations"] * batch, counts["commands.messages"], rel_tol=0.1)


def decisions(counts):
    """Invocations that decide outcomes: asked by workers, or fed by the queue of events."""
    return counts["decide.invocations"] + counts.get("engine.invocations", 0)


def test_a_decision_and_a_start_take_at_most_three_round_trips(chains):
    for line in chains:
        counts = line["counts_per_million"]
        assert counts["postgres.round_trips"] <= 3 * (decisions(counts) + counts["api.requests"])


def test_the_page_says_what_make_cost_computes(lines):
    """Cell by cell, to a unit of the last digit that is shown: chunks of loops and lines of logs differ a little between machines."""
    computed, printed = (text.strip().splitlines() for text in (cost_page.table(lines), cost_page.printed()))
    assert printed[:2] == computed[:2] and len(printed) == len(computed) == 2 + len(BATCHES)
    for shown, wanted in zip(printed[2:], computed[2:], strict=True):
        pairs = list(zip(re.findall(r"[\d.]+", shown), re.findall(r"[\d.]+", wanted), strict=True))
        assert len(pairs) == 8
        for one, other in pairs[:COLUMNS]:
            unit = 10.0 ** -len(one.partition(".")[2]) if "." in one else 0
            assert math.isclose(float(one), float(other), abs_tol=1.01 * unit), (
                f"{shown}\n{wanted}\nmake cost PAGE=1"
            )


def test_the_report_for_people_has_every_figure_of_the_idle_environments(lines):
    shown = cost_page.readable(lines)
    assert cost_page.table(lines) in shown and "| | dev | staging | prod |" in shown
    totals = [line["dollars_per_month"]["total"] for line in lines if line["line"] == "idle"]
    assert f"| **together** | {' | '.join(f'**{one:.0f}**' for one in totals)} |" in shown


def test_what_the_page_says_in_words_is_computed_as_well(lines):
    page = " ".join(cost_page.PAGE.read_text("utf-8").split())
    first, _, tenth = (line for line in lines if line.get("workload") == "chain")
    figures = [
        (
            sum(value for name, value in counts.items() if name.startswith(("commands.", "events.", "timers.")) and name.endswith(CALLS)),
            decisions(counts) + counts["worker.invocations"],
            counts["postgres.commits"],
        )
        for counts in (first["counts_per_million"], tenth["counts_per_million"])
    ]  # fmt: skip
    at_1, at_10 = ([f"{each / MILLION:.1f}" for each in one] for one in figures)
    assert "at average batch 1 is {} requests to SQS, {} invocations and {} commits".format(*at_1) in page
    assert "at batch 10 it is {} requests, {} invocations and {} commits".format(*at_10) in page
    rivals = first["step_functions_dollars_per_million"]
    assert f"Standard: {rivals['standard']:.1f}, and Express: {rivals['express']:.2f}" in page
    aurora, small, _ = first["postgres_dollars_per_million"].values()
    hourly = (
        f"{aurora['per_hour']:.2f} an hour) is {aurora['at_100_per_s']:.2f} per million at 100 transitions/s"
    )
    assert (
        f"{hourly} and {aurora['at_1000_per_s']:.2f} at 1,000/s; a db.t4g.medium {small['at_100_per_s']:.2f}"
        in page
    )
    assert f"is an object in S3: {PRICES.s3_put:.0f} dollars per million" in page


def test_larger_batches_cost_less_and_a_tenth_of_step_functions_is_reached(chains):
    totals = [line["dollars_per_million"]["total"] for line in chains]
    assert totals == sorted(totals, reverse=True)
    assert totals[1] < PRICES.step_functions_transitions / 10


def test_parts_add_up_and_queues_are_priced_by_the_table(chains):
    for line in chains:
        counts, dollars = line["counts_per_million"], line["dollars_per_million"]
        assert math.isclose(
            dollars["total"], sum(v for n, v in dollars.items() if n != "total"), abs_tol=0.01
        )
        fifo = sum(counts.get(f"events.{call}", 0) for call in ("send", "receive", "delete"))
        standard = sum(counts[f"commands.{call}"] for call in ("send", "receive", "delete"))
        wanted = (fifo * PRICES.sqs_fifo + standard * PRICES.sqs_standard) / MILLION
        assert math.isclose(dollars["sqs"], wanted, abs_tol=0.001)


def test_a_large_result_is_one_object(lines):
    for line in (line for line in lines if line.get("workload") == "chain of large results"):
        assert line["counts_per_million"]["s3.put"] == MILLION
        assert line["dollars_per_million"]["s3"] >= PRICES.s3_put
        assert line["counts_per_million"].get("events.bytes", 0) < 4096 * MILLION


def test_logs_are_measured_in_every_run(chains):
    """Each invocation writes a line, also that of a start."""
    for line in chains:
        counts = line["counts_per_million"]
        invocations = decisions(counts) + counts["worker.invocations"] + counts["api.requests"]
        assert counts["log.lines"] == invocations
        assert counts["log.bytes"] > 150 * counts["log.lines"]


def test_a_step_alone_costs_at_most_a_dollar_per_million(chains):
    assert chains[0]["dollars_per_million"]["total"] <= 1.0


@over(
    ("sizes", "batches", "billed"),
    [
        ([10], 1, 1),
        ([10] * 10, 1, 1),
        ([10] * 11, 2, 2),
        ([SQS_UNIT], 1, 1),
        ([SQS_UNIT, 1], 1, 2),
        ([200 * 1024, 100 * 1024], 2, 6),
    ],
)
def test_requests_are_cut_and_billed_as_sqs_does(sizes, batches, billed):
    made = requests(["x" * size for size in sizes])
    assert len(made) == batches
    assert sum(map(units, made)) == billed


def test_an_execution_that_does_not_end_is_an_error(monkeypatch):
    monkeypatch.setattr("tests.bench.cost.Deployment.run", lambda self, batch: None)
    with pytest.raises(RuntimeError, match="did not complete"):
        measure(workloads(quick=True)[0], 1, load_environment("prod"))
