"""What a function writes: lines that name their execution, and one per invocation with its metrics in CloudWatch's format."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
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
        call.count("CommandsLost", 3)
        call.count("CommandsLost", 2)
        call.note(records=4, left=0)
        call.about([7])
    with telemetry.invocation() as call:
        call.about(range(100))
    first, second = lines()
    assert (first["request_id"], first["records"], first["execution_id"]) == ("r-1", 4, "7")
    assert first["CommandsLost"] == 5 and "left" not in first
    (group,) = first["_aws"]["CloudWatchMetrics"]
    assert group["Namespace"] == "NoETL"
    assert group["Dimensions"] == [["service"]]
    assert group["Metrics"] == [{"Name": "CommandsLost", "Unit": "Count"}]
    assert first["service"] == telemetry.service, "by which alarms find the metric"
    assert first["cold_start"] is True and "cold_start" not in second
    assert (second["executions"], len(second["execution_ids"])) == (100, SHOWN_IDS)
    assert not {"CommandsLost", "_aws", "service"} & second.keys(), (
        "what one invocation counted is not the next one's, and without a metric the line defines none"
    )


def test_a_brief_line_names_its_request_when_an_error_ended_it(written):
    telemetry, lines = written
    request = SimpleNamespace(aws_request_id="r-1")
    with telemetry.invocation(request, brief=True) as call:
        call.note(events=1)
    with pytest.raises(ZeroDivisionError), telemetry.invocation(request, brief=True):
        raise ZeroDivisionError
    done, failed = lines()
    assert "request_id" not in done and done["events"] == 1
    assert failed["request_id"] == "r-1"


def test_the_time_of_a_line_is_one_that_lambda_reads(written):
    """Lambda takes a line without an RFC 3339 timestamp for INFO, and drops it where only warnings are wanted."""
    telemetry, lines = written
    before = datetime.now(UTC).replace(microsecond=0)
    telemetry.log("now", level="error")
    (line,) = lines()
    assert line["timestamp"].endswith("Z")
    assert before <= datetime.fromisoformat(line["timestamp"]) <= datetime.now(UTC)


def test_a_line_names_the_trace_that_is_kept(written, monkeypatch):
    telemetry, lines = written
    for sampled in "10":
        monkeypatch.setenv("_X_AMZN_TRACE_ID", f"Root=1-5759e988-bd86;Parent=53995c3f;Sampled={sampled}")
        telemetry.log("traced")
    kept, other = lines()
    assert kept["trace_id"] == "1-5759e988-bd86"
    assert not {"trace_id", "xray_trace_id"} & other.keys()


def test_an_invocation_that_breaks_says_so_and_breaks(written):
    telemetry, lines = written
    with pytest.raises(ZeroDivisionError), telemetry.invocation() as call:
        call.count("CommandsLost")
        raise ZeroDivisionError("oh")
    (line,) = lines()
    assert (line["level"], line["Errors"], line["CommandsLost"]) == ("ERROR", 1, 1)
    assert "ZeroDivisionError: oh" in line["message"]


def test_metrics_are_sent_where_lines_are_not_wanted(written):
    """As a warning: Lambda drops what is below, and CloudWatch would not see the metric."""
    telemetry, lines = written
    telemetry.logger.setLevel("WARNING")
    with telemetry.invocation() as call:
        call.note(events=1)
    with telemetry.invocation() as call:
        call.count("RefusedEvents", 2)
    (sent,) = lines()
    assert (sent["level"], sent["RefusedEvents"]) == ("WARNING", 2)
    assert "_aws" in sent
