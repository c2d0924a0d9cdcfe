"""NoETL as a construct in another team's app, from the checkout and from the wheel."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.infra.templates import Templates

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Templates of infra/example, synthesized as its owner would: in its own folder, without the flags of cdk.json."""
    folder = tmp_path_factory.mktemp("example")
    done = subprocess.run(
        [sys.executable, "app.py", str(folder)],
        cwd=ROOT / "infra/example",
        env={**os.environ, "CDK_CONTEXT_JSON": json.dumps({"aws:cdk:disable-asset-staging": True})},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return next(folder.glob("assembly-*"))


def stacks(assembly: Path) -> dict[str, str]:
    """Name of a stack → its key in the manifest."""
    artifacts = json.loads((assembly / "manifest.json").read_text())["artifacts"]
    return {
        found["properties"]["stackName"]: key
        for key, found in artifacts.items()
        if found["type"] == "aws:cloudformation:stack"
    }


@pytest.mark.full
def test_the_stacks_of_the_environment_keep_their_names_beside_the_team_s_own(example: Path) -> None:
    names = stacks(example)
    own = {name for name in names if name.startswith("Noetl-orders-")}
    assert len(own) == 8 and names.keys() - own == {"Production-Orders"}
    artifacts = json.loads((example / "manifest.json").read_text())["artifacts"]
    assert names["Noetl-orders-Api"] in artifacts[names["Production-Orders"]]["dependencies"]


@pytest.mark.full
def test_the_team_s_function_may_start_executions_and_do_nothing_else(example: Path) -> None:
    templates = Templates(example, "")
    orders = stacks(example)["Production-Orders"]
    (policy,) = (place for place in templates.all("AWS::IAM::Policy") if place.stack == orders)
    (statement,) = policy.properties["PolicyDocument"]["Statement"]
    assert statement["Action"] == "execute-api:Invoke"
    arn = templates.text(orders, statement["Resource"])
    assert arn.endswith(">/$default/POST/api/executions"), arn


@pytest.mark.full
def test_the_flags_of_the_other_app_change_nothing(example: Path, prod: Path) -> None:
    """Except for what the example sets, the resources are those of prod."""
    names = {key: name.removeprefix("Noetl-orders-") for name, key in stacks(example).items()}
    theirs, ours = Templates(example, ""), Templates(prod, "Noetl-prod-")
    for stack in ("Data", "Messaging", "Engine", "Api", "Schedules", "Workers"):
        assert sorted(
            place.resource["Type"] for place in theirs.all() if names[place.stack] == stack
        ) == sorted(place.resource["Type"] for place in ours.all() if place.stack == stack)
    queues = [place for place in theirs.all("AWS::SQS::Queue") if names[place.stack] == "Messaging"]
    assert all(place.properties["QueueName"].startswith("noetl-orders-") for place in queues)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The content of the wheel, without the web UI."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NOETL_WHEEL_WITHOUT_UI": "1"}, check=True, capture_output=True
    )
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_deploys_without_a_checkout(wheel: Path, tmp_path: Path) -> None:
    """It carries what a deployment reads, finds it, and makes environments of it; what it builds goes into the cache."""
    script = """
import json
from pathlib import Path
import noetl_cdk
from noetl.local.layout import project
from noetl_cdk import environment
from noetl_cdk.layer_build import BUILT, LIBRARY, layer_names
from noetl_cdk.constructs.python_function import FUNCTIONS
from noetl_cdk.playbooks import playbook_files
made = environment("pr-7", like="dev")
print(json.dumps({
    "name": made.name, "project": str(project(None)), "library": str(LIBRARY), "built": str(BUILT),
    "layers": layer_names(), "functions": sorted(one.parent.name for one in FUNCTIONS.glob("*/handler.py")),
    "playbooks": len(list(playbook_files(made.playbooks))),
}))
"""
    environ = {
        **os.environ,
        "PYTHONPATH": str(wheel),
        "NOETL_CACHE": str(tmp_path / "cache"),
        "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    project = wheel / "noetl_cdk/project"
    assert (found["name"], found["project"]) == ("pr-7", str(project))
    assert found["library"] == str(wheel / "noetl") and found["built"] == str(tmp_path / "cache/layers")
    assert found["layers"] == ["core", "deps", "duckdb"] and found["playbooks"] > 5
    assert found["functions"] == ["api", "decide", "engine", "maintenance", "migrate", "scheduler", "worker"]
    assert (project / "infra/package-lock.json").is_file() and (project / "cdk.json").is_file()
