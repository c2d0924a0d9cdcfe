"""A file of environments: what it may say, and how a mistake in it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.config import Access, ConfigError, Environment
from infra.environments import load_environment


def load(folder: Path, text: str, name: str, **context: str) -> Environment:
    file = folder / "environments.yaml"
    file.write_text(text)
    return load_environment(name, {"environments": str(file), **context})


FILE = """\
dev:
  alarms: {emails: [ops@example.com]}
prod-eu:
  like: prod
  account: "123456789012"
  network: {cidr: 10.60.0.0/18}
  functions: {api: {memory: 2048, reserved: 300}}
  workers:
    concurrency: {http: 300}
    access:
      s3: [{actions: ["s3:GetObject"], resources: ["arn:aws:s3:::reports/*"]}]
  tags: {team: data}
prod-us:
  like: prod-eu
  network: {cidr: 10.61.0.0/18}
  workers: {concurrency: {mixed: 5}}
  backup: null
"""


def test_an_environment_is_like_another_but_for_what_it_says(tmp_path: Path) -> None:
    made = load(tmp_path, FILE, "prod-us", tags="cost=42")
    assert made.name == "prod-us" and made.account == "123456789012"
    assert made.network.cidr == "10.61.0.0/18" and made.network.nat_gateways == 3
    assert made.workers.concurrency == {"http": 300, "mixed": 5}
    assert made.workers.access["s3"] == (
        Access(actions=("s3:GetObject",), resources=("arn:aws:s3:::reports/*",)),
    )
    assert (made.functions["api"].reserved, made.functions["engine"].reserved) == (300, 200)
    assert made.tags == {"environment": "prod-us", "team": "data", "cost": "42"}
    assert made.backup is None and load(tmp_path, FILE, "prod-eu").backup is not None


def test_the_file_changes_a_preset_and_leaves_the_others_alone(tmp_path: Path) -> None:
    assert load(tmp_path, FILE, "dev").alarms.emails == ("ops@example.com",)
    assert load(tmp_path, FILE, "staging") == load_environment("staging")


def test_a_branch_needs_no_file(tmp_path: Path) -> None:
    given = {"like": "dev", "cidr": "10.43.0.0/16", "permissions_boundary": "limits"}
    made = load_environment("pr-42", given)
    assert (made.prefix, made.network.cidr, made.permissions_boundary) == (
        "noetl-pr-42",
        "10.43.0.0/16",
        "limits",
    )
    assert load(tmp_path, FILE, "pr-43", like="dev").alarms.emails == ("ops@example.com",)


def test_a_file_in_the_working_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "environments.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    assert load_environment("prod-eu").network.cidr == "10.60.0.0/18"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("netwrk: {}", ":3:3: an environment has no setting 'netwrk'; did you mean 'network'?"),
        ("name: other", ":3:3: an environment has no setting 'name'"),
        ("network: {zones: many}", ":3:13: network.zones is 'many': Input should be a valid integer"),
        ("network: {egress: nta}", ":3:13: network.egress is 'nta': Input should be 'none', "),
        (
            "workers: {access: {s3: [{action: [], resources: []}]}}",
            ":3:28: workers.access.s3.0 has no setting 'action'; did you mean 'actions'?",
        ),
        ("network: {zones: 9}", "environment 'x1': zones is 2 or 3"),
    ],
)
def test_a_wrong_setting_is_told_with_its_place_and_its_remedy(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, f"x1:\n  like: dev\n  {text}\n", "x1")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "x1:\n  network: {zones: 3}\n",
            ":2:3: the environment 'x1' does not say what it is like: add `like:`",
        ),
        ("x1:\n  like: x2\nx2:\n  like: x1\n", "x1 is like x2 is like x1"),
        ("x1:\n  like: local\n", "no environment can be like local"),
        ("x1:\n  like: nothing\n", "there is no environment 'nothing'"),
        ("x1: dev\n", ":1:1: 'x1' is no mapping"),
        ("X_1:\n  like: dev\n", ":1:1: 'X_1' is no name of an environment"),
        ("x1: [\n", "environments.yaml:"),
        ("", "the document is empty"),
    ],
)
def test_a_wrong_file_is_told_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load(tmp_path, text, "x1")
    assert problem in str(refused.value)


def test_a_name_that_is_nowhere_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no environment 'prod-ux'; did you mean 'prod-us'"):
        load(tmp_path, FILE, "prod-ux")
    with pytest.raises(ConfigError, match="like=pord: there is no environment 'pord'; did you mean 'prod'"):
        load_environment("pr-1", {"like": "pord"})
    with pytest.raises(ConfigError, match="No such file"):
        load_environment("dev", {"environments": "nowhere.yaml"})
