"""Secrets where they are kept: what is read, what goes wrong, and that it stays inside its step, also over a wait."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import boto3
import psycopg
import pytest
from moto import mock_aws
from psycopg import sql

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import Credential
from noetl.kinds.cloud.aws_client import forget_clients
from noetl.kinds.registry import default_registry
from noetl.runtime.local.process import LocalRuntime
from noetl.runtime.settings import Settings
from noetl.services.queries import read_execution
from tests.waiting import PATIENCE

REGION = "eu-central-1"
KEYS = {"aws_access_key_id": "x", "aws_secret_access_key": "x"}
ACCOUNT = Credential("account", "aws", {"access_key_id": "x", "secret_access_key": "x", "region": REGION})
CANARY = "canary-7f3a91c2d8"


@pytest.fixture
def aws(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    forget_clients()
    with mock_aws():
        manager = boto3.client("secretsmanager", REGION, **KEYS)
        manager.create_secret(Name="prod/crm", SecretString=json.dumps({"token": CANARY, "user": "me"}))
        manager.create_secret(Name="plain", SecretString="first")
        manager.put_secret_value(SecretId="plain", SecretString="second")
        manager.create_secret(Name="binary", SecretBinary=b"\xff\xfe")
        store = boto3.client("ssm", REGION, **KEYS)
        store.put_parameter(Name="/prod/key", Value=CANARY, Type="SecureString")
        yield
    forget_clients()


@pytest.fixture
def call(make_context):
    def call(credential: Credential = ACCOUNT, **params: Any) -> Any:
        context = make_context(credentials={"account": credential}, http_allow=("127.0.0.1",))
        return default_registry().run("secrets", params, context).result

    return call


@pytest.mark.parametrize(
    ("params", "value", "data"),
    [
        ({"secret": "prod/crm", "key": "token"}, CANARY, {"token": CANARY, "user": "me"}),
        pytest.param({"secret": "plain"}, "second", None, marks=pytest.mark.full),
        pytest.param({"secret": "plain", "version": "AWSPREVIOUS"}, "first", None, marks=pytest.mark.full),
        ({"provider": "aws_parameter", "path": "/prod/key"}, CANARY, None),
    ],
)
def test_aws(aws, call, params, value, data):
    assert call(auth="account", **params) == {"value": value, "data": data}


@pytest.mark.parametrize(
    ("params", "kind", "code"),
    [
        ({"secret": "nowhere"}, "not_found", "ResourceNotFoundException"),
        ({"secret": "prod/crm", "key": "tokn"}, "not_found", "secret_field"),
        ({"secret": "binary"}, "parse", "secret_binary"),
        ({"provider": "aws_parameter", "secret": "/nowhere"}, "not_found", "ParameterNotFound"),
        ({"provider": "env", "secret": "NOETL_SECRET_NOWHERE"}, "not_found", "secret_missing"),
        ({"provider": "env", "secret": "AWS_SECRET_ACCESS_KEY"}, "schema", "kind_params"),
        ({"provider": "google", "secret": "a"}, "schema", "kind_params"),
    ],
)
def test_errors(aws, call, params, kind, code):
    auth = {} if params.get("provider") in ("env", "google") else {"auth": "account"}
    with pytest.raises(TaskError) as caught:
        call(**auth, **params)
    assert (caught.value.kind, caught.value.code) == (kind, code)
    assert CANARY not in str(caught.value) + json.dumps(caught.value.details)


def test_google(web, call):
    said = {"payload": {"data": base64.b64encode(CANARY.encode()).decode()}}
    web.answers["/v1/projects/shop-1/secrets/crm/versions/latest:access"] = (
        200,
        {},
        json.dumps(said).encode(),
    )
    error = {"error": {"code": 404, "message": "Secret [x] not found", "status": "NOT_FOUND"}}
    web.answers["/v1/projects/shop-1/secrets/x/versions/3:access"] = (
        404,
        {"Content-Type": "application/json"},
        json.dumps(error).encode(),
    )
    account = Credential(
        "account", "gcs", {"access_token": "open", "endpoint": web.base, "project_id": "shop-1"}
    )
    assert call(account, provider="google", auth="account", secret="crm")["value"] == CANARY
    assert web.received[-1].headers["authorization"] == "Bearer open"
    with pytest.raises(TaskError) as caught:
        call(account, provider="google", auth="account", secret="x", version="3")
    assert (caught.value.kind, caught.value.code) == ("not_found", "NOT_FOUND")


PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: secret, path: secret }
workflow:
  - step: start
    tool:
      - secret: { kind: secrets, provider: env, secret: NOETL_SECRET_TOKEN, key: token }
      - digest:
          kind: python
          args: { token: "{{ secret.value }}" }
          code: |
            import hashlib
            print("token is", token)
            result = {"digest": hashlib.sha256(token.encode()).hexdigest(), "token": token}
          spec:
            policy:
              rules:
                - when: "{{ _attempt == 1 }}"
                  then: { do: retry, attempts: 2, delay: 0.3 }
      - broken:
          kind: python
          args: { token: "{{ secret.data.token }}" }
          code: raise ValueError("bad token " + token)
          spec: { policy: { rules: [{ when: "{{ outcome.status == 'error' }}", then: { do: continue } }] } }
      - told: { kind: noop, args: { secret: "{{ secret }}", digest: "{{ digest }}" } }
"""


def test_a_secret_stays_in_its_step(database, tmp_path, monkeypatch):
    """A task works with it, also after the pipeline has waited; what is stored, told or printed holds a mask."""
    monkeypatch.setenv("NOETL_SECRET_TOKEN", json.dumps({"token": CANARY, "user": "me"}))
    lines: list[str] = []
    settings = Settings.from_env({}, home=tmp_path, database_url=database)
    with LocalRuntime(settings, on_log=lines.append) as runtime:
        execution_id = runtime.start(runtime.register(PLAYBOOK, source_name="secret.yaml"), {})
        runtime.run_until([execution_id], timeout=PATIENCE)
        stored = [row.facts for row in runtime.store.events(execution_id)]
        result = read_execution.result(runtime.store, runtime.results, execution_id)
    assert result["digest"] == {"digest": hashlib.sha256(CANARY.encode()).hexdigest(), "token": "***"}
    assert result["secret"] == {"value": "***", "data": {"token": "***", "user": "me"}}
    assert any("token is ***" in line for line in lines)
    everything = codec.encode(result) + b"".join(stored) + "".join(lines).encode()
    assert CANARY.encode() not in everything
    with psycopg.connect(database) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'noetl'").fetchall()
        for (table,) in tables:
            query = sql.SQL("SELECT t::text FROM noetl.{} t").format(sql.Identifier(table))
            for (row,) in connection.execute(query):
                assert CANARY not in row, table
