"""The kind ``secrets``: reads a secret from its provider.

Providers: Secrets Manager, Parameter Store, Google Secret Manager, the environment of a local run. A secret that is read is visible to
the following tasks of the same step only: it is removed from results, events, errors and logs, and a pipeline that waits reads it again
when it continues.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import quote

from pydantic import Field, model_validator

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import HOLE, KindSpec, TaskContext, TaskResult
from noetl.kinds.cloud.aws_client import AwsParams, answering, client

SPEC = KindSpec(
    name="secrets",
    summary="Reads a secret where it is kept, for the tasks behind it in the same step.",
    pool="io",
    default_timeout=15.0,
    aliases={"secret_name": "secret", "path": "secret", "field": "key"},
    result_fields=("value", "data"),
    needs_network=True,
    extra="aws",
)

EXAMPLE: dict[str, Any] = {"provider": "aws", "secret": "prod/crm", "key": "token"}

GOOGLE = "https://secretmanager.googleapis.com"
GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
PREFIX = "NOETL_SECRET_"
"""Variables of the environment that a playbook may read; any other may be the worker's own."""

Provider = Literal["aws", "aws_parameter", "google", "env"]


class Params(AwsParams):
    """``secret`` at ``provider``; ``key``: a field of it."""

    refused: ClassVar[Mapping[str, str]] = {
        "value": "a secret does not belong into a playbook: keep it at a provider, or as a credential"
    }

    provider: Annotated[Provider, Field(description="Where it is kept.")] = "aws"
    secret: Annotated[str, Field(min_length=1, max_length=2048, description="Its name, ARN, or path.")]
    key: Annotated[
        str | None, Field(min_length=1, description="A field of a secret that is a JSON object.")
    ] = None
    version: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=64,
            description="A version, or its stage (`AWSPREVIOUS`); default: the current one.",
        ),
    ] = None
    project: Annotated[
        str | None, Field(pattern=r"^[a-z][a-z0-9-]{4,29}$", description="`google`: the project.")
    ] = None

    @model_validator(mode="after")
    def _fits(self) -> Params:
        provider: object = self.provider
        if provider is HOLE:
            return self
        if provider == "google" and self.auth is None:
            raise ValueError("google needs `auth`, a credential of type gcs")
        if provider == "env" and isinstance(self.secret, str) and not self.secret.startswith(PREFIX):
            raise ValueError(f"only variables that begin with {PREFIX} can be read")
        return self


def run(params: Params, context: TaskContext) -> TaskResult:
    """Read the secret: ``{value, data}``.

    The text (or the field ``key``), and what it holds when it is a JSON object (else null).

    Raises TaskError: ``secret_field`` (not_found), ``secret_binary`` (parse), ``secret_missing`` (not_found), or the provider's own code.
    """
    text = _READ[params.provider](params, context)
    data = _object(text)
    value: Any = text
    if params.key is not None:
        if data is None or params.key not in data:
            raise TaskError(
                f"the secret {params.secret} has no field {params.key!r}",
                kind="not_found",
                code="secret_field",
                hint=f"it has {', '.join(sorted(data))}" if data else "it is no JSON object",
            )
        value = data[params.key]
    given = params.model_dump(mode="json", exclude_none=True)
    context.conceal(given, {"value": value, "text": text, "data": data})
    return TaskResult({"value": value, "data": data})


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = codec.decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _aws(params: Params, context: TaskContext) -> str:
    request: dict[str, Any] = {"SecretId": params.secret}
    if params.version:
        # A version's id is a UUID; anything else is a stage.
        request[
            "VersionId" if len(params.version) == 36 and params.version.count("-") == 4 else "VersionStage"
        ] = params.version
    service = client("secretsmanager", params, context)
    with answering("secretsmanager", params.secret):
        answer = service.get_secret_value(**request)
    if "SecretString" in answer:
        return str(answer["SecretString"])
    return _text(answer["SecretBinary"], params.secret)


def _aws_parameter(params: Params, context: TaskContext) -> str:
    name = f"{params.secret}:{params.version}" if params.version else params.secret
    service = client("ssm", params, context)
    with answering("ssm", params.secret):
        return str(service.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def _google(params: Params, context: TaskContext) -> str:
    from noetl.kinds.cloud.google_auth import access_token, google_error
    from noetl.kinds.http.api_call import Api, json_of

    credential = context.credential(params.auth or "")
    project = params.project or str(credential.data.get("project_id") or "")
    path = (
        params.secret
        if params.secret.startswith("projects/")
        else f"projects/{project}/secrets/{params.secret}"
    )
    if not path.startswith("projects/") or "//" in path:
        raise TaskError("google needs a `project`", kind="schema", code="kind_params")
    endpoint = str(credential.data.get("endpoint") or GOOGLE).rstrip("/")
    url = (
        f"{endpoint}/v1/{quote(path, safe='/')}/versions/{quote(params.version or 'latest', safe='')}:access"
    )
    api = Api(context, {"Authorization": f"Bearer {access_token(credential, GOOGLE_SCOPE, context)}"})
    try:
        answer = json_of(api.call("GET", url))
    except TaskError as error:
        raise google_error(error, "Google Secret Manager") from None
    return _text(base64.b64decode(answer["payload"]["data"]), params.secret)


def _env(params: Params, context: TaskContext) -> str:
    found = os.environ.get(params.secret) if params.secret.startswith(PREFIX) else None
    if found is None:
        raise TaskError(
            f"{params.secret} is not set where this task runs",
            kind="not_found",
            code="secret_missing",
            hint=f"set it in the environment of the worker; only names that begin with {PREFIX} are read",
        )
    return found


def _text(data: bytes, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise TaskError(f"the secret {name} is not text", kind="parse", code="secret_binary") from None


_READ: Mapping[str, Any] = {"aws": _aws, "aws_parameter": _aws_parameter, "google": _google, "env": _env}
