"""Parameters of the kind ``http``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from noetl.domain.kinds import Hole
from noetl.domain.results.references import is_ref
from noetl.kinds.support.base import READ_SECONDS, KindParams, seconds_schema

Seconds = Annotated[float, Field(gt=0, le=86_400), READ_SECONDS, seconds_schema(0, 86_400)]
Pause = Annotated[float, Field(ge=0, le=3600), READ_SECONDS, seconds_schema(0, 3600)]
Status = Annotated[int, Field(ge=400, le=999)]
JsonPath = Annotated[str, Field(pattern=r"^\$?(\.?[^.\[\]]+|\[\d+\])*$", max_length=500)]


class Timeouts(BaseModel):
    """Seconds to wait for a connection, and for each part of the answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    connect: Seconds | None = None
    read: Seconds | None = None


class Save(BaseModel):
    """How a streamed body is kept."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Literal["auto", "json", "jsonl", "csv", "parquet", "text", "bytes"] = Field(
        "auto", description="What the body is; `auto`: as its content type says, or its address."
    )


class Part(BaseModel):
    """One file of a form: its content (``file``, ``content`` or ``ref``), and its name."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    file: Annotated[str, Field(min_length=1)] | None = Field(None, description="A file beside the playbook.")
    content: Any = Field(None, description="Text; mappings and lists are sent as JSON.")
    encoding: Literal["base64"] | None = Field(None, description="`content` is base64.")
    ref: Any = Field(None, description="A large result, sent as it is kept.")
    filename: Annotated[str, Field(min_length=1, max_length=255)] | None = Field(
        None, description="What it is called; a file's own name, a result's field and format."
    )
    content_type: Annotated[str, Field(min_length=1, max_length=200)] | None = Field(
        None, description="Its media type; by default that of the file's name or of the result."
    )

    @model_validator(mode="after")
    def _one_content(self) -> Part:
        if sum(one is not None for one in (self.file, self.content, self.ref)) != 1:
            raise ValueError("a part has one of file, content and ref")
        return self


def _as_part(value: Any) -> Any:
    """Wrap a large result as a part that refers to it."""
    if isinstance(value, list):
        return [_as_part(one) for one in value]
    return {"ref": value} if is_ref(value) else value


FormValue = str | int | float | bool | None
FormField = Annotated[Part | FormValue | list[Part | FormValue], BeforeValidator(_as_part)]


class PageRetry(BaseModel):
    """How often one page is tried, and how long the first pause is; it doubles."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    attempts: Annotated[int, Field(ge=1, le=100)] = 3
    delay: Pause = 1.0


class Paginate(BaseModel):
    """How an answer in pages is read to its end."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    by: Literal["page", "offset", "cursor", "link", "url"] = Field(
        description="What leads to the next page: a number, an offset, a cursor or an address in the body, or the header `Link`."
    )
    items: JsonPath = Field("$", description="Where a page's list of items is.")
    param: Annotated[str, Field(min_length=1)] | None = Field(
        None, description="Parameter that carries the number, offset or cursor; by default called like that."
    )
    send: Literal["query", "body"] = Field("query", description="Where that parameter goes.")
    start: int | str | None = Field(
        None, description="Its first value: 1 for `page`, 0 for `offset`, else none."
    )
    size: Annotated[int, Field(ge=1)] | None = Field(
        None, description="Items of a full page: a page with fewer is the last."
    )
    next: JsonPath | None = Field(None, description="Where the next cursor or address is.")
    more: JsonPath | None = Field(None, description="What is true while there is another page.")
    until: JsonPath | None = Field(None, description="What is true on the last page.")
    max_pages: Annotated[int, Field(ge=1)] | None = Field(None, description="Stop after so many pages.")
    retry: PageRetry = Field(default_factory=PageRetry, description="How a page that failed is tried again.")
    hosts: list[str] = Field(
        default_factory=list, description="Other hosts that addresses of next pages may lead to."
    )

    @model_validator(mode="after")
    def _complete(self) -> Paginate:
        if self.by in ("cursor", "url") and self.next is None:
            raise ValueError(f"by: {self.by} needs 'next', the path of the next {self.by} in a page")
        if self.by in ("link", "url") and (self.param or self.start is not None):
            raise ValueError(f"by: {self.by} takes whole addresses, not 'param' or 'start'")
        if self.by in ("page", "offset") and not isinstance(self.start, int | Hole | None):
            raise ValueError("'start' is a number here")
        return self


def _upper(value: Any) -> Any:
    return value.strip().upper() if isinstance(value, str) else value


class Params(KindParams):
    """``url`` is required; everything else has a default."""

    refused: ClassVar[Mapping[str, str]] = {
        "verify": "TLS certificates are always verified; add your authority to the deployment's trust store",
        "proxies": "requests go out directly; proxies belong to the network of the deployment",
        "proxy": "requests go out directly; proxies belong to the network of the deployment",
    }
    sensitive = frozenset({"auth", "headers", "body", "form", "multipart", "body_from"})

    url: Annotated[str, Field(min_length=1, description="Absolute http or https URL.")]
    method: Annotated[
        Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"], BeforeValidator(_upper)
    ] = Field("GET", description="In any case; GET unless given.")
    params: dict[str, Any] | None = Field(None, description="Query parameters; a list repeats its name.")
    headers: dict[str, Any] | None = Field(None, description="Request headers.")
    body: Any = Field(None, description="Mappings, lists, numbers: sent as JSON. Text: sent as it is.")
    form: dict[str, Any] | None = Field(None, description="Sent URL-encoded, instead of `body`.")
    multipart: dict[str, FormField] | None = Field(
        None,
        description="A form with files, instead of `body`: values, or `{file|content|ref, filename, content_type}`.",
    )
    body_from: Any = Field(None, description="A large result, sent as it is kept, instead of `body`.")
    timeout: Seconds | Timeouts | None = Field(
        None, description="Seconds for the whole call, or `{connect, read}`."
    )
    auth: str | dict[str, Any] | None = Field(
        None, description="A credential's name, or `{type: basic|bearer|header, credential: …}`."
    )
    follow_redirects: bool = Field(True, description="Follow up to five redirects.")
    accept_status: Literal["any"] | list[Status] | None = Field(
        None, description="Statuses of 400 and above whose answer is a result: `any`, or a list."
    )
    stream: bool = Field(False, description="Keep the body as a result of its own, never in memory.")
    save: Save | None = Field(None, description="The same, with `format`, where the answer does not tell it.")
    paginate: Paginate | None = Field(
        None, description="Read page after page; the result is all their items."
    )

    @model_validator(mode="after")
    def _one_body(self) -> Params:
        given = {
            "body": self.body,
            "form": self.form,
            "multipart": self.multipart,
            "body_from": self.body_from,
        }
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1:
            raise ValueError(f"give either {' or '.join(map(repr, names))}, not both")
        return self

    @model_validator(mode="after")
    def _pages_of_good_answers(self) -> Params:
        if self.paginate is not None and self.accept_status is not None:
            raise ValueError("a page of a status of 400 and above is none: leave 'accept_status' out")
        return self

    @model_validator(mode="after")
    def _lines_of_pages(self) -> Params:
        if (
            isinstance(self.paginate, Paginate)
            and isinstance(self.save, Save)
            and self.save.format not in ("auto", "jsonl")
        ):
            raise ValueError("items of pages are kept as jsonl; leave the format out")
        return self
