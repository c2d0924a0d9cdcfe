"""Credentials: the file of a local run, the secrets of a deployment."""

from __future__ import annotations

import json
import os

import pytest
from botocore.exceptions import ClientError
from psycopg.conninfo import conninfo_to_dict

from noetl.adapters.aws.secrets import SecretsCredentials, database_dsn, secret_texts
from noetl.adapters.embedded.credentials import FileCredentials
from noetl.domain.errors import InfrastructureError, InvalidInputError, TaskError
from tests.contract.clouds import Clock, mocked_aws
from tests.parts import over

SECRET = "canary-7f3a"


PREFIX = "noetl/test/credentials/"


def write(path, text, mode=0o600):
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.fixture
def secrets(monkeypatch):
    with mocked_aws(monkeypatch) as make_client:
        yield make_client("secretsmanager")


def keep(client, name, value):
    return client.create_secret(
        Name=name, SecretString=value if isinstance(value, str) else json.dumps(value)
    )["ARN"]


@pytest.fixture(params=["file", "secrets"])
def credentials(request, tmp_path):
    """A store of these credentials: name → (type, data)."""

    def made(found):
        entries = {name: {"type": kind, "data": data} for name, (kind, data) in found.items()}
        if request.param == "file":
            return FileCredentials(write(tmp_path / "credentials.json", json.dumps(entries)))
        client = request.getfixturevalue("secrets")
        for name, entry in entries.items():
            keep(client, PREFIX + name, entry)
        return SecretsCredentials(PREFIX, client)

    return made


def test_a_credential_is_found_by_its_name(credentials):
    data = {"password": SECRET, "port": 5432, "large": 2**70, "ä": [None, {"x": 1.5}]}
    store = credentials({"pg": ("postgres", data), "team/pg.2": ("t", {})})
    found = store.get("pg", 1)
    assert (found.name, found.type, dict(found.data)) == ("pg", "postgres", data)
    assert SECRET not in repr(found) and store.get("team/pg.2", 1).type == "t"


@pytest.mark.parametrize("name", ["nope", "", "pg ", "a*", "ä", "x" * 2000, "p\x00g"])
def test_what_does_not_exist_is_not_found(credentials, name):
    store = credentials({"pg": ("postgres", {"password": SECRET})})
    with pytest.raises(TaskError) as caught:
        store.get(name, 1)
    error = caught.value
    assert (error.kind, error.code, error.retryable) == ("auth", "credential_not_found", False)
    assert "known: pg" in str(error) and error.hint and SECRET not in str(error)


@pytest.mark.parametrize(
    "text",
    [
        f"pg: {{type: postgres, data: {{password: {SECRET}, port: 5432, on: yes}}}}",
        json.dumps({"pg": {"type": "postgres", "data": {"password": SECRET, "port": 5432, "on": "yes"}}}),
    ],
)
def test_yaml_and_json_are_read(tmp_path, text):
    found = FileCredentials(write(tmp_path / "c.yaml", text)).get("pg", 1)
    assert (found.name, found.type, dict(found.data)) == (
        "pg",
        "postgres",
        {"password": SECRET, "port": 5432, "on": "yes"},
    )
    assert SECRET not in repr(found)


def test_a_changed_file_is_read_again(tmp_path):
    path = write(tmp_path / "c", "a: {type: t, data: {}}")
    store = FileCredentials(path)
    store.get("a", 1)
    write(path, "b: {type: t, data: {x: 1}}")
    os.utime(path, ns=(1, 1))
    assert store.get("b", 1).data == {"x": 1}
    with pytest.raises(TaskError):
        store.get("a", 1)


def test_an_unknown_name_tells_what_there_is(tmp_path):
    store = FileCredentials(
        write(tmp_path / "c", f"b: {{type: t, data: {{p: {SECRET}}}}}\na: {{type: t, data: {{}}}}")
    )
    with pytest.raises(TaskError) as caught:
        store.get("nope", 1)
    error = caught.value
    assert (error.kind, error.code, error.retryable) == ("auth", "credential_not_found", False)
    assert "'nope'" in str(error) and "known: a, b" in str(error) and SECRET not in str(error)
    with pytest.raises(TaskError, match="NOETL_CREDENTIALS"):
        FileCredentials(None).get("x", 1)


@pytest.mark.parametrize(
    "text",
    [
        "- a",
        "a: secret",
        "a: {type: t}",
        "a: {type: t, data: {}, extra: 1}",
        "a: {type: 1, data: {}}",
        "a: {type: t, data: [1]}",
        "a: {type: t, data: {x: [}",
        "a: &x {type: t, data: {y: *x}}",
        "[" * 100_000,
        "a: \x00",
        "#" * (1024 * 1024 + 1),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text):
    with pytest.raises(TaskError) as caught:
        FileCredentials(write(tmp_path / "c.yaml", text)).get("a", 1)
    assert caught.value.code == "credentials_file" and "c.yaml" in str(caught.value)


def test_a_missing_or_binary_file_says_so(tmp_path):
    with pytest.raises(TaskError, match="No such file"):
        FileCredentials(tmp_path / "gone").get("a", 1)
    (tmp_path / "bin").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TaskError) as caught:
        FileCredentials(tmp_path / "bin").get("a", 1)
    assert caught.value.code == "credentials_file"


def test_others_who_can_read_it_are_mentioned_once(tmp_path):
    lines = []
    store = FileCredentials(write(tmp_path / "c", "a: {type: t, data: {}}", 0o644), lines.append)
    store.get("a", 1)
    store.get("a", 1)
    assert len(lines) == 1 and "chmod 600" in lines[0]
    FileCredentials(write(tmp_path / "d", "a: {type: t, data: {}}"), lines.append).get("a", 1)
    assert len(lines) == 1


# --- secrets ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        f'["{SECRET}"]',
        f'{{"type": "t", "data": "{SECRET}"}}',
        f'{{"type": 1, "data": {{"p": "{SECRET}"}}}}',
        f'{{"type": "t", "data": {{}}, "{SECRET}": 1}}',
        "[" * 30_000,
    ],
)
def test_a_secret_that_is_no_credential_is_told_without_its_text(secrets, text):
    keep(secrets, PREFIX + "a", text)
    with pytest.raises(TaskError) as caught:
        SecretsCredentials(PREFIX, secrets).get("a", 1)
    assert (caught.value.kind, caught.value.code) == ("auth", "credential_invalid")
    assert SECRET not in str(caught.value) and caught.value.__cause__ is None


def test_a_secret_is_asked_for_once_a_minute(secrets):
    keep(secrets, PREFIX + "a", {"type": "t", "data": {"v": 1}})
    clock = Clock()
    store = SecretsCredentials(PREFIX, secrets, clock=clock)
    assert store.get("a", 1).data == {"v": 1}
    secrets.put_secret_value(SecretId=PREFIX + "a", SecretString='{"type": "t", "data": {"v": 2}}')
    clock.sleep(59)
    assert store.get("a", 2).data == {"v": 1}
    clock.sleep(2)
    assert store.get("a", 2).data == {"v": 2}


def test_a_secret_marked_for_deletion_is_gone(secrets):
    keep(secrets, PREFIX + "a", {"type": "t", "data": {}})
    secrets.delete_secret(SecretId=PREFIX + "a")
    with pytest.raises(TaskError) as caught:
        SecretsCredentials(PREFIX, secrets).get("a", 1)
    assert caught.value.code == "credential_not_found"


class Answering:
    """Secrets Manager that answers all the same."""

    def __init__(self, code, status=400):
        self.error = {
            "Error": {"Code": code, "Message": "no"},
            "ResponseMetadata": {"HTTPStatusCode": status},
        }

    def get_secret_value(self, **wanted):
        raise ClientError(self.error, "GetSecretValue")

    def list_secrets(self, **wanted):
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "ListSecrets")


@over(
    ("answer", "kind", "code", "retryable"),
    [
        (("ResourceNotFoundException",), "auth", "credential_not_found", False),
        (("AccessDeniedException",), "auth", "credential_refused", False),
        (("InternalServiceError", 500), "connection", "credentials_away", True),
        (("ThrottlingException",), "connection", "credentials_away", True),
        (("DecryptionFailure",), "connection", "credentials_away", False),
    ],
)
def test_what_secrets_manager_answers(answer, kind, code, retryable):
    with pytest.raises(TaskError) as caught:
        SecretsCredentials(PREFIX, Answering(*answer)).get("a", 1)
    error = caught.value
    assert (error.kind, error.code, error.retryable) == (kind, code, retryable)
    assert "known" not in str(error), "a role that may not list secrets lists none"


def test_a_key_that_rotates_is_known_in_both_versions(secrets):
    arn = keep(secrets, "token", "one")
    assert secret_texts(secrets, arn) == ["one"]
    secrets.put_secret_value(SecretId=arn, SecretString="two")
    assert secret_texts(secrets, arn) == ["two", "one"]
    with pytest.raises(InfrastructureError) as caught:
        secret_texts(secrets, "missing")
    assert (caught.value.code, caught.value.retryable) == ("secret_missing", False)


def test_the_database_by_its_secret(secrets):
    fields = {"username": "u@x", "password": "p/:?#%ä", "host": "db.example", "port": 5433, "dbname": "noetl"}
    arn = keep(secrets, "db", {**fields, "engine": "postgres"})
    dsn = database_dsn(secrets, arn)
    found = conninfo_to_dict(dsn)
    assert (found["user"], found["password"], found["host"]) == ("u@x", "p/:?#%ä", "db.example")
    assert (found["port"], found["dbname"], found["sslmode"]) == ("5433", "noetl", "require")
    assert conninfo_to_dict(database_dsn(secrets, arn, "proxy.example"))["host"] == "proxy.example"
    local = keep(secrets, "local", {**fields, "port": None, "sslmode": "disable"})
    assert conninfo_to_dict(database_dsn(secrets, local))["sslmode"] == "disable"


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        (SECRET, "username, password, host, dbname"),
        ('{"username": "u", "password": "' + SECRET + '", "host": ""}', "host, dbname"),
    ],
)
def test_a_secret_of_no_database_names_what_it_lacks(secrets, text, lacks):
    arn = keep(secrets, "db", text)
    with pytest.raises(InvalidInputError, match=lacks) as caught:
        database_dsn(secrets, arn)
    assert caught.value.code == "secret_invalid" and SECRET not in str(caught.value)


def test_names_are_told_without_what_is_behind_them(credentials):
    store = credentials({"pg": ("postgres", {"password": SECRET}), "team/pg.2": ("t", {})})
    found = store.types(["pg", "team/pg.2", "nope", "no name", ""])
    assert found.keys() == {"pg", "team/pg.2"} and found["pg"] in ("postgres", "")
    assert sorted(store.known()) == ["pg", "team/pg.2"]


def test_a_secret_that_may_not_be_looked_at_counts_as_there(secrets):
    """Whoever reads it will see: a function that checks names need not be able to read them."""

    class Refusing:
        def __init__(self, code: str) -> None:
            self.code = code

        def describe_secret(self, **wanted):
            raise ClientError(
                {"Error": {"Code": self.code}, "ResponseMetadata": {"HTTPStatusCode": 400}}, "Describe"
            )

        def list_secrets(self, **wanted):
            self.describe_secret()

    store = SecretsCredentials(PREFIX, Refusing("AccessDeniedException"))
    assert store.types(["a"]) == {"a": ""} and store.known() == []
    with pytest.raises(InfrastructureError):
        SecretsCredentials(PREFIX, Refusing("InternalServiceError")).types(["a"])
    keep(secrets, PREFIX + "gone", {"type": "t", "data": {}})
    secrets.delete_secret(SecretId=PREFIX + "gone", RecoveryWindowInDays=7)
    assert SecretsCredentials(PREFIX, secrets).types(["gone"]) == {}, "marked for deletion"
