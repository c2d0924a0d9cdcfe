"""The cost model runs, counts what the queues and functions really do, and prices it by its table."""

from __future__ import annotations

import math

import pytest

from infra.environments import load_environment
from tests.bench.cost import BATCHES, MILLION, measure, report, workloads
from tests.bench.meters import requests, units
from tests.bench.prices import PRICES, SQS_UNIT


@pytest.fixture(scope="module")
def lines():
    return report(load_environment("prod"), quick=True)


@pytest.fixture(scope="module")
def chains(lines):
    return [line for line in lines if line.get("workload") == "chain"]


def test_each_workload_is_priced_at_each_batch(lines):
    told = [
        (line["workload"], line["average_batch"]["engine"]) for line in lines if line["line"] == "transitions"
    ]
    assert [batch for name, batch in told if name == "chain"] == list(BATCHES)
    assert len(told) == 3 * len(BATCHES)
    assert lines[0]["source"] == "from general knowledge, not looked up"
    assert {line["env"] for line in lines if line["line"] == "idle"} == {"dev", "staging", "prod"}


@pytest.mark.parametrize("place", range(len(BATCHES)))
def test_a_chain_sends_one_command_and_one_event_per_step_however_they_are_batched(chains, place):
    counts, batch = chains[place]["counts_per_million"], BATCHES[place]
    starts = MILLION / chains[place]["per_execution"]
    assert counts["commands.messages"] == MILLION
    assert counts["events.messages"] == MILLION + starts
    assert counts["api.requests"] == starts
    assert counts["worker.invocations"] == counts["commands.receive"] == MILLION / batch
    assert counts["engine.invocations"] == counts["events.delete"] == (MILLION + starts) / batch


def test_an_engine_invocation_takes_at_most_three_round_trips(chains):
    for line in chains:
        counts = line["counts_per_million"]
        of_starts = 2 * counts["api.requests"]
        assert counts["postgres.round_trips"] - of_starts <= 3 * counts["engine.invocations"]


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
        fifo = sum(counts[f"events.{call}"] for call in ("send", "receive", "delete"))
        standard = sum(counts[f"commands.{call}"] for call in ("send", "receive", "delete"))
        wanted = (fifo * PRICES.sqs_fifo + standard * PRICES.sqs_standard) / MILLION
        assert math.isclose(dollars["sqs"], wanted, abs_tol=0.001)


def test_a_large_result_is_one_object(lines):
    for line in (line for line in lines if line.get("workload") == "chain of large results"):
        assert line["counts_per_million"]["s3.put"] == MILLION
        assert line["dollars_per_million"]["s3"] >= PRICES.s3_put
        assert line["counts_per_million"]["events.bytes"] < 4096 * MILLION


def test_logs_are_measured_in_every_run(chains):
    for line in chains:
        counts = line["counts_per_million"]
        assert counts["log.bytes"] > 200 * counts["log.lines"]


@pytest.mark.parametrize(
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
