"""`noetl deploy`: what is looked at before anything is deployed, and what is told afterwards. The CDK is a script that does as if."""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest
from botocore.exceptions import ClientError

from infra import environments
from noetl.local import release as releases

FAKE = """\
#!/usr/bin/env python3
import json, os, pathlib, sys
words = sys.argv[1:]
verb = next(one for one in words if one in ("synth", "deploy", "diff", "bootstrap"))
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps([verb, words, os.environ.get("AWS_PROFILE")]) + "\\n")
def after(option):
    return pathlib.Path(words[words.index(option) + 1])
if verb == "synth":
    folder = after("--output")
    folder.mkdir()
    stacks = {"Noetl-dev-Api": ["Noetl-dev-Data", "Noetl-dev-Api.assets"], "Noetl-dev-Data": []}
    artifacts = {
        name: {
            "type": "aws:cloudformation:stack",
            "properties": {"templateFile": name + ".json"},
            "dependencies": needs,
        }
        for name, needs in stacks.items()
    }
    for place, name in enumerate(stacks):
        (folder / (name + ".json")).write_text(json.dumps({"Resources": {str(n): 0 for n in range(place + 2)}}))
    (folder / "manifest.json").write_text(json.dumps({"artifacts": artifacts}))
    if "BILL" in os.environ:
        (folder / "idle-cost.json").write_text(json.dumps({"dollars_per_month": json.loads(os.environ["BILL"])}))
elif verb == "diff":
    print("[+] AWS::SQS::Queue Events")
elif verb == "deploy":
    print("Noetl-dev-Data: deploying... [1/2]")
    if os.environ.get("FAILS"):
        print("Noetl-dev-Data | 1/9 | CREATE_FAILED | AWS::KMS::Key | Key: not authorized to perform kms:CreateKey")
        sys.exit(1)
    print(" ✅  Noetl-dev-Data (no changes)")
    api = {"ApiEndpoint": "https://abc.execute-api.eu-central-1.amazonaws.com", "ApiAuth": os.environ["AUTH"]}
    after("--outputs-file").write_text(json.dumps({"Noetl-dev-Api": api}))
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    """What the CDK was called with."""
    script = tmp_path / "node_modules" / ".bin" / "cdk"
    script.parent.mkdir(parents=True)
    script.write_text(FAKE)
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    project = tmp_path / "checkout"
    (project / "infra").mkdir(parents=True)
    (project / "cdk.json").write_text("{}")
    monkeypatch.chdir(project)
    monkeypatch.setattr(releases, "cdk", lambda project, progress: tmp_path / "node_modules")
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    monkeypatch.setenv("AUTH", "iam")
    monkeypatch.delenv("NOETL_ACCOUNT", raising=False)
    file = tmp_path / "calls"
    return lambda: [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


class Aws:
    """An account; ``stacks``: what CloudFormation has there."""

    stacks: ClassVar[set[str]] = set()
    meta = SimpleNamespace(region_name="eu-central-1")

    def get_caller_identity(self):
        return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/ann"}

    def describe_stacks(self, StackName):  # noqa: N803
        if StackName not in self.stacks:
            told = {
                "Error": {"Code": "ValidationError", "Message": f"Stack with id {StackName} does not exist"}
            }
            raise ClientError(told, "DescribeStacks")


@pytest.fixture
def aws(monkeypatch):
    """An account that the CDK was prepared for."""
    monkeypatch.setattr(Aws, "stacks", {"CDKToolkit"})
    monkeypatch.setattr("noetl.local.aws.client", lambda service, endpoint, **options: Aws())


def verbs(calls) -> list[str]:
    return [verb for verb, *_ in calls()]


def test_a_deployment_is_told_and_its_api_becomes_a_context(noetl, calls, aws):
    ran = noetl("deploy", "dev", "--yes", "-c", "alarm_email=ops@example.com", "--json")
    assert ran.code == 0, ran.err
    *steps, last = ran.json
    assert verbs(calls) == ["synth", "deploy"] and "env=dev" in calls()[0][1]
    assert "alarm_email=ops@example.com" in calls()[0][1]
    assert [one["step"] for one in steps[-3:]] == [
        "deploying 2 stacks to 123456789012 in eu-central-1",
        "Noetl-dev-Data …",
        "Noetl-dev-Data is as it was",
    ]
    assert (last["context"], last["auth"], last["account"]) == ("dev", "iam", "123456789012")
    [kept] = noetl("context", "list", "--json").json
    assert kept["url"] == last["api"] == "https://abc.execute-api.eu-central-1.amazonaws.com"
    assert kept["auth"] == "iam" and kept["region"] == "eu-central-1"


def test_where_people_bring_tokens_the_context_is_left_to_them(noetl, calls, aws, monkeypatch):
    monkeypatch.setenv("AUTH", "jwt")
    ran = noetl("deploy", "dev", "--yes")
    assert (
        ran.code == 0 and "noetl context add NAME --url https://abc." in ran.out and "--token-env" in ran.out
    )
    assert not noetl("context", "list", "--json").json


def test_looking_changes_nothing(noetl, calls, aws):
    ran = noetl("deploy", "dev", "--diff")
    assert ran.code == 0 and "[+] AWS::SQS::Queue Events" in ran.out
    ran = noetl("deploy", "dev", "--dry-run", "--json")
    assert ran.json[-1]["stacks"] == {"Noetl-dev-Data": 3, "Noetl-dev-Api": 2}
    assert verbs(calls) == ["synth", "diff", "synth"]
    assert noetl("deploy", "dev").code == 2, "nobody agreed"
    assert len(calls()) == 3


def test_an_idle_month_is_priced_beside_the_last_deployment(noetl, calls, aws, monkeypatch):
    monkeypatch.setenv("BILL", '{"database": 1.82, "NAT": 7.36}')
    ran = noetl("deploy", "dev", "--dry-run")
    assert "  together                      9.18\n" in ran.out and "against" not in ran.out
    assert noetl("deploy", "dev", "--yes").code == 0
    monkeypatch.setenv("BILL", '{"database": 87.6, "alarms": 1.4}')
    ran = noetl("deploy", "dev", "--dry-run")
    assert "  database                     87.60  (+85.78)\n" in ran.out
    assert "  NAT                           0.00  (-7.36)\n" in ran.out
    assert "  together                     89.00  (+79.82 against what is deployed)\n" in ran.out
    *_, cost = noetl("deploy", "dev", "--dry-run", "--json").json
    assert (cost["total"], cost["change"], cost["deployed"]["NAT"]) == (89.0, 79.82, 7.36)


def test_an_account_is_prepared_when_it_is_asked_for(noetl, calls, aws, monkeypatch):
    monkeypatch.setattr(Aws, "stacks", set())
    ran = noetl("deploy", "dev", "--yes")
    assert ran.code == 3 and "not_bootstrapped" in ran.err and "--bootstrap" in ran.err
    assert not calls()
    assert noetl("deploy", "dev", "--yes", "--bootstrap").code == 0
    assert verbs(calls) == ["synth", "bootstrap", "deploy"]
    assert "aws://123456789012/eu-central-1" in calls()[1][1]


def test_what_the_cdk_says_of_a_failure_is_shown(noetl, calls, aws, monkeypatch):
    monkeypatch.setenv("FAILS", "1")
    ran = noetl("deploy", "dev", "--yes")
    assert ran.code == 3 and "not authorized to perform kms:CreateKey" in ran.err and "deploy.log" in ran.err
    assert not noetl("context", "list", "--json").json


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("local",), 2, "noetl local up"),
        (("../prod",), 2, "unknown_environment"),
        (("dev", "-c", "alarm_email"), 2, "NAME=VALUE"),
        (("dev", "-c", "env=prod"), 2, "NAME=VALUE"),
        (("dev", "--dry-run", "--diff"), 2, "--dry-run"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_happens(noetl, calls, aws, words, code, told):
    ran = noetl("deploy", *words)
    assert ran.code == code and told in ran.err, ran
    assert not calls()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("prdo", "did you mean 'prod'?"),
        ("qa", "environments: dev, staging, prod; a new one is like another: noetl deploy qa --like dev"),
    ],
)
def test_an_unknown_environment_is_named_before_aws_is_asked(noetl, calls, monkeypatch, name, told):
    """Nobody has credentials here."""
    shutil.copy(Path(environments.__file__), Path.cwd() / "infra")
    monkeypatch.setattr(releases, "account", lambda release: pytest.fail("AWS was asked"))
    for words in (("--yes",), ("--dry-run",), ("--diff",)):
        ran = noetl("deploy", name, *words)
        assert ran.code == 2 and "unknown_environment" in ran.err and told in ran.err, ran
    assert not calls()


def test_environments_of_a_checkout_that_cannot_be_read_are_left_to_the_cdk(noetl, calls):
    (Path.cwd() / "infra" / "environments.py").write_text("NAMES = tuple(sorted(['qa']))\n")
    assert noetl("deploy", "qa", "--dry-run").code == 0
    assert verbs(calls) == ["synth"]


def test_somebody_else_deploys_nothing(noetl, calls, aws, monkeypatch):
    monkeypatch.setenv("NOETL_ACCOUNT", "999999999999")
    ran = noetl("deploy", "dev", "--yes")
    assert ran.code == 3 and "aws_other_account" in ran.err and "999999999999" in ran.err
    assert not calls()


@pytest.mark.parametrize(
    ("settings", "words", "told"),
    [
        ({}, ("--region", "eu-central-1"), "Unable to locate credentials"),
        ({}, ("--profile", "nobody"), "The config profile (nobody) could not be found"),
        ({"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}, (), "region"),
        (
            {
                "AWS_ACCESS_KEY_ID": "a",
                "AWS_SECRET_ACCESS_KEY": "b",
                "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
                "AWS_REGION": "eu-central-1",
            },
            ("--region", "eu-central-1"),
            "http://127.0.0.1:9",
        ),
    ],
    ids=["nobody", "profile", "region", "unreachable"],
)
def test_without_an_account_it_is_said_what_is_missing(noetl, calls, monkeypatch, settings, words, told):
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    quiet = {"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/dev/null"}
    for name, value in {**quiet, "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", **settings}.items():
        monkeypatch.setenv(name, value)
    ran = noetl("deploy", "dev", "--yes", *words)
    assert ran.code == 3 and told in ran.err and "aws_credentials" in ran.err and "aws sso login" in ran.err
    assert not calls()
