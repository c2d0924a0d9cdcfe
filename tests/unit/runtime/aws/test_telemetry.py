"""What a function writes: lines that name their execution, and one per invocation with its metrics in CloudWatch's format."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from noetl.runtime.aws.telemetry import SHOWN_IDS, Telemetry


@pytest.fixture
def written(request):
    """A telemetry of its own (loggers are shared by name) and a function that reads the lines it wrote."""
    stream = io.StringIO()
    telemetry = Telemetry(service=request.node.name, stream=stream)
    return telemetry, lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def test_lines_of_threads_name_the_execution_they_are_about(written):
    telemetry, lines = written

    def work(execution: int) -> None:
        with telemetry.about(execution):
            telemetry.log(f"of {execution} %s", kind="python")

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(40)))
    telemetry.log("of nobody")
    *about, last = lines()
    assert {line["message"]: line["execution_id"] for line in about} == {
        f"of {n} %s": str(n) for n in range(40)
    }
    assert all(line["kind"] == "python" for line in about)
    assert "execution_id" not in last


def test_an_invocation_writes_one_line_with_its_metrics(written):
    telemetry, lines = written
    with telemetry.invocation(SimpleNamespace(aws_request_id="r-1")) as call:
        call.count("Commands", 3)
        call.count("Commands", 2)
        call.note(records=4)
        call.about([7])
    with telemetry.invocation() as call:
        call.about(range(100))
    first, second = lines()
    assert (first["request_id"], first["records"], first["execution_id"]) == ("r-1", 4, "7")
    assert first["Commands"] == 5
    (group,) = first["_aws"]["CloudWatchMetrics"]
    assert group["Namespace"] == "NoETL"
    assert group["Dimensions"] == [["service"]]
    assert {"Name": "Commands", "Unit": "Count"} in group["Metrics"]
    assert all(metric["Name"] in first for metric in group["Metrics"])
    assert (first["cold_start"], second["cold_start"]) == (True, False)
    assert (second["executions"], len(second["execution_ids"])) == (100, SHOWN_IDS)
    assert "Commands" not in second, "what one invocation counted is not the next one's"


def test_an_invocation_that_breaks_says_so_and_breaks(written):
    telemetry, lines = written
    with pytest.raises(ZeroDivisionError), telemetry.invocation() as call:
        call.count("Commands")
        raise ZeroDivisionError("oh")
    (line,) = lines()
    assert (line["level"], line["Errors"], line["Commands"]) == ("ERROR", 1, 1)
    assert "ZeroDivisionError: oh" in line["message"]


def test_metrics_are_sent_where_lines_are_not_wanted(written, capsys):
    telemetry, lines = written
    telemetry.logger.setLevel("WARNING")
    with telemetry.invocation() as call:
        call.count("RefusedEvents", 2)
    assert lines() == []
    sent = json.loads(capsys.readouterr().out)
    assert sent["RefusedEvents"] == [2.0]
    assert "_aws" in sent
