"""A REST API's events are answered as those of an HTTP API."""

from __future__ import annotations

import base64
import json
from typing import Any

from noetl.api.http.dispatch import Api
from noetl.api.http.gateway import make_resolver
from noetl.runtime.aws.rest_events import as_http_api, as_rest_answer, at_emulator, is_of_rest

CALLER = "arn:aws:sts::123456789012:assumed-role/ops/ada"


def event(path: str, caller: str | None = CALLER, **changed: Any) -> dict[str, Any]:
    """A request as a REST API sends it (payload format 1.0)."""
    return {
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": "GET",
        "headers": {"Accept": "application/json", "X-Two": "b"},
        "multiValueHeaders": {"Accept": ["application/json"], "X-Two": ["a", "b"]},
        "queryStringParameters": {"status": "failed"},
        "multiValueQueryStringParameters": {"status": ["running", "failed"]},
        "pathParameters": {"proxy": path[1:]},
        "requestContext": {
            "httpMethod": "GET",
            "path": f"/live{path}",
            "stage": "live",
            "requestId": "r-1",
            "identity": {"userArn": caller, "sourceIp": "10.0.0.9"},
        },
        "body": None,
        "isBase64Encoded": False,
        **changed,
    }


def test_what_stands_before_the_path_is_part_of_the_address() -> None:
    assert as_http_api(event("/api/executions"))["requestContext"]["base"] == "/live"
    assert as_http_api(event("/", requestContext={"path": "/"}))["requestContext"]["base"] == ""
    sent = {"headers": {"Host": "127.0.0.1:4566"}, "requestContext": {"apiId": "ab12cd"}}
    found = at_emulator(sent, "http://127.0.0.1:4566/")["requestContext"]
    assert found == {"apiId": "ab12cd", "base": "/_aws/execute-api/ab12cd"}
    assert at_emulator(sent, "") == sent
    by_name = sent | {"headers": {"host": "ab12cd.execute-api.localhost:4566"}}
    assert at_emulator(by_name, "http://127.0.0.1:4566") == by_name


def test_the_caller_the_path_and_repeated_values_arrive() -> None:
    made = as_http_api(event("/api/executions"))
    assert made["rawPath"] == "/api/executions" and made["requestContext"]["stage"] == "$default"
    assert made["headers"]["X-Two"] == "a,b"
    assert made["queryStringParameters"] == {"status": "running,failed"}
    assert made["requestContext"]["authorizer"] == {"iam": {"userArn": CALLER}}
    assert is_of_rest(event("/")) and not is_of_rest(made)


def test_a_request_is_answered_in_the_form_that_a_rest_api_takes() -> None:
    api = Api(lambda: (_ for _ in ()).throw(AssertionError("needs nothing")), "iam")
    resolve = make_resolver(api)
    answer = as_rest_answer(resolve(as_http_api(event("/health", caller=None)), None))
    assert answer["statusCode"] == 200
    assert set(answer) == {"statusCode", "headers", "body", "isBase64Encoded"}
    refused = resolve(as_http_api(event("/api/executions", caller=None)), None)
    assert refused["statusCode"] == 401
    assert json.loads(refused["body"])["code"] == "unauthenticated"


def test_a_body_of_bytes_arrives_as_it_was_sent() -> None:
    body = base64.b64encode("workflow: ä".encode()).decode()
    made = as_http_api(event("/api/catalog/register", body=body, isBase64Encoded=True, httpMethod="POST"))
    assert (made["body"], made["isBase64Encoded"]) == (body, True)
    assert made["requestContext"]["http"] == {"method": "POST"}
