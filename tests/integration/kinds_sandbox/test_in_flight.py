"""Descriptors that a task has sent and nobody receives: the kernel counts them for the user, whoever sent them."""

from __future__ import annotations

import resource
import sys

import pytest

from noetl.kinds.sandbox import in_flight as sending
from noetl.kinds.sandbox.noetl_guest.confine import OPEN_FILES
from noetl.runtime.local.machine_checks import check_open_files
from tests.integration.kinds_sandbox import in_flight
from tests.integration.kinds_sandbox.conftest import Task
from tests.integration.kinds_sandbox.test_confinement import combined, ground  # noqa: F401

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="other systems start an interpreter for each task"
)


@combined(["root"])
def test_what_a_task_sends_and_keeps_stops_no_other_execution(ground):  # noqa: F811
    """A worker whose limit is no higher than that of most systems."""
    (messages, why), answer, refused = ground.outcome_of(in_flight.__file__, "1024", "held")
    assert answer == "worked" and not refused
    assert why == "Too many references: cannot splice"
    assert messages <= 3, "the last one passes the limit by 250, which leaves room for the worker"


@combined(["ordinary"])
def test_an_execution_begins_when_the_kernel_lets_the_worker_send_again(ground):  # noqa: F811
    """Where the limit is too low: it does not fail."""
    _, answer, refused = ground.outcome_of(in_flight.__file__, "300", "ended")
    assert answer == "worked" and (refused or ground.user == 0)


def test_a_worker_takes_the_files_that_it_may_have_and_a_task_gets_fewer(monkeypatch):
    asked = []
    monkeypatch.setattr(resource, "setrlimit", lambda what, limits: asked.append(limits))
    for soft, hard in ((1024, 524288), (1024, 2048), (20000, 20000), (1024, resource.RLIM_INFINITY)):
        monkeypatch.setattr(resource, "getrlimit", lambda what, found=(soft, hard): found)
        sending.raise_limit.__wrapped__()
    assert asked == [(8192, 524288), (2048, 2048), (8192, resource.RLIM_INFINITY)]
    monkeypatch.undo()
    code = "import resource\nresult = resource.getrlimit(resource.RLIMIT_NOFILE)"
    assert Task("python").run({"code": code}).result == [OPEN_FILES, OPEN_FILES]
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] >= min(sending.WANTED_FILES, sending.may_open())


@pytest.mark.parametrize(
    ("hard", "status"), [(1024, "warning"), (4096, "ok"), (resource.RLIM_INFINITY, "ok")]
)
def test_doctor_names_a_limit_that_is_too_low(hard, status, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda what: (1024, hard))
    assert check_open_files().status == status
