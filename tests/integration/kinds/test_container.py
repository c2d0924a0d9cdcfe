"""Containers of one machine, over a command line that behaves like Docker's."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.embedded.docker import DockerJobs
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.domain.outcomes.outcomes import PollRequest
from noetl.kinds.registry import default_registry
from tests.waiting import PATIENCE, wait_until

FAKE = Path(__file__).with_name("fake_docker.py")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for folder in ("bin", "images", "containers"):
        (tmp_path / folder).mkdir()
    program = tmp_path / "bin" / "docker"
    program.write_text(f"#!{sys.executable} -SE\n" + FAKE.read_text().partition("\n")[2])
    program.chmod(0o755)
    (tmp_path / "images" / "here").touch()
    monkeypatch.setenv("FAKE_DOCKER", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return tmp_path


class Place:
    """Asks for a container as an engine does. ``jobs``: one process; ``again``: called before each question."""

    def __init__(self, make_context: Callable[..., Any]) -> None:
        secret = Credential("db", "postgres", {"password": "s3cret"})
        self.jobs = DockerJobs()
        self.context = replace(
            make_context(credentials={"db": secret}, timeout=PATIENCE),
            wake="7/1",
            left=PATIENCE,
            jobs=self.jobs,
        )
        self.waits: list[PollRequest] = []
        self.again: Callable[[], None] = lambda: None

    def ask(self, pending: Any = None, **params: Any) -> Any:
        context = replace(self.context, pending=pending, jobs=self.jobs)
        return default_registry().run("container", {"image": "here", **params}, context)

    def run(self, **params: Any) -> Any:
        answers = [self.ask(**params)]

        def over() -> bool:
            answer = answers[-1]
            if isinstance(answer, PollRequest):
                self.waits.append(answer)
                json.dumps(answer.state)
                self.again()
                answers.append(self.ask(answer.state, **params))
            return not isinstance(answers[-1], PollRequest)

        wait_until(over, "the container's end")
        return answers[-1].result

    def fail(self, **params: Any) -> TaskError:
        with pytest.raises(TaskError) as caught:
            self.run(**params)
        return caught.value


@pytest.fixture
def place(home: Path, make_context: Callable[..., Any]) -> Place:
    return Place(make_context)


def code(text: str) -> list[str]:
    return [sys.executable, "-SEc", text]


def test_a_container_runs_to_its_end_and_its_last_line_is_its_value(home, place):
    text = "import json, os; print('hello'); print(json.dumps([os.environ['N'], json.loads(os.environ['DB'])['data']]))"
    found = place.run(command=code(text), env={"N": 3}, secrets={"DB": "db"}, cpu=0.5, memory=256)
    assert found["exit_code"] == 0 and found["data"] == ["3", {"password": "s3cret"}]
    assert found["logs"].startswith("hello\n")
    (folder,) = (home / "containers").iterdir()
    about = json.loads((folder / "about.json").read_text())
    assert (about["cpus"], about["memory"]) == ("0.5", "256m") and "s3cret" not in json.dumps(about)
    assert place.waits[0].delay == 0.5


def test_the_same_order_again_starts_nothing_twice(home, place):
    go = home / "go"
    words = code(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.02)\nprint(1)")
    assert place.ask(command=words).state == place.ask(command=words).state
    place.jobs = DockerJobs()
    go.touch()
    assert place.run(command=words)["data"] == 1
    assert len(list((home / "containers").iterdir())) == 1


def test_an_image_is_pulled_beside_and_by_whoever_comes_next(home, place):
    def crash() -> None:
        place.jobs, place.again = DockerJobs(), lambda: None

    place.again = crash
    assert place.run(image="registry.test/far:1", command=code("print(7)"))["data"] == 7


@pytest.mark.parametrize(
    ("params", "kind", "error_code", "retryable"),
    [
        ({"command": code("import sys; print('no rows'); sys.exit(3)")}, "unknown", "exit_3", False),
        pytest.param(
            {"command": code("import sys; sys.exit(137)")},
            "storage_quota",
            "out_of_memory",
            False,
            marks=pytest.mark.full,
        ),
        pytest.param(
            {"image": "nowhere:1", "command": ["x"]},
            "not_found",
            "image_pull_failed",
            False,
            marks=pytest.mark.full,
        ),
        ({"command": "missing word"}, "client_error", "start_failed", False),
        ({"secrets": {"DB": "other"}, "command": ["x"]}, "auth", "credential_not_found", False),
        ({"volumes": ["/:/host"]}, "schema", "kind_params", False),
        ({"image": "--privileged"}, "schema", "kind_params", False),
    ],
)
def test_failures(place, params, kind, error_code, retryable):
    error = place.fail(**params)
    assert (error.kind, error.code, error.retryable) == (kind, error_code, retryable), str(error)
    if error_code == "exit_3":
        assert error.details["exit_code"] == 3 and "no rows" in error.details["logs"]


def test_a_service_that_is_away_for_a_moment_fails_no_container(home, place):
    def away() -> None:
        if len(place.waits) == 1:
            (home / "away").touch()
        elif len(place.waits) == 4:
            (home / "away").unlink()

    place.again = away
    assert place.run(command=code("print(1)"))["data"] == 1


def test_what_nobody_waits_for_is_stopped_there_also_when_its_process_died(home, place):
    sleeper = code("import time; time.sleep(3600)")
    first = place.ask(command=sleeper)
    default_registry().stop("container", first.state, replace(place.context, jobs=place.jobs))
    default_registry().stop("container", first.state, replace(place.context, jobs=place.jobs))
    assert [one.name for one in home.glob("removed-*")] == [f"removed-{first.state['name']}"]
    place.context = replace(place.context, idempotency_key="other", left=1.0)
    left = place.ask(command=sleeper)
    place.jobs = DockerJobs(now=lambda: time.time() + 60)
    place.context = replace(place.context, idempotency_key="third")
    place.run(command=code("print(1)"))
    assert (home / f"removed-{left.state['name']}").exists()


def test_without_docker_or_podman_it_says_what_to_install(place, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    error = place.fail(command=["x"])
    assert error.code == "containers_unavailable" and "podman" in str(error.hint)
