"""Pagination: reads an answer in pages to its end within one call.

Its items are a list, or lines that are streamed.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from noetl.domain import codec
from noetl.domain.errors import TaskError
from noetl.domain.kinds import ArtifactWriter, TaskContext, TaskResult
from noetl.domain.results.references import select
from noetl.kinds.http.call import limits_of, refuse_oversized, request_of
from noetl.kinds.http.client import Answer, Request, send, without_credentials
from noetl.kinds.http.params import Paginate, Params
from noetl.kinds.http.request import parameter, without_parameter
from noetl.kinds.http.response import data_of, envelope_of, failure_of, helper_of
from noetl.kinds.support.net_guard import Target, joined, parse_url

MOST_PAGES = 10_000
"""Where the playbook does not say how many: an API that never ends is a mistake."""
LONGEST_PAUSE = 15.0
"""Seconds that a worker is held between two tries of a page; who asks for more is left to the task's own retries."""
_LINK = re.compile(r'<([^<>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"[^"]*"|[^",;\s<>]+))?)*)')
_REL = re.compile(r';\s*rel\s*=\s*(?:"([^"]*)"|([^",;\s]+))', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Page:
    """``number`` from 1; ``value``: the body."""

    number: int
    answer: Answer
    value: Any
    items: list[Any]


class _Sink(Protocol):
    """Where items go."""

    def add(self, page: Page) -> None: ...

    def close(self, pages: int, count: int) -> Any:
        """Return ``data`` of the result."""


def read_pages(params: Params, how: Paginate, context: TaskContext, *, streamed: bool) -> TaskResult:
    """Read all pages; return the last page's fields and the items of all pages.

    They are ``{status_code, headers, url, elapsed, data, pages, count, more}``.

    Raises TaskError: as a single call does, with ``details.page``, and ``pagination``, ``page_elsewhere``, ``too_many_pages``.
    """
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        sink: _Sink = (
            _Lines(stack.enter_context(context.artifacts.create("jsonl")))
            if streamed
            else _Listed(context.settings.output_max_bytes)
        )
        count, more = 0, False
        for page, following in _pages(params, how, context):
            sink.add(page)
            count += len(page.items)
            more = following
        elapsed = time.monotonic() - began
        result = envelope_of(page.answer, elapsed, sink.close(page.number, count))
    result |= {"pages": page.number, "count": count, "more": more}
    if not streamed:
        refuse_oversized(result, context.settings.output_max_bytes, context.settings.output_max_bytes)
    return TaskResult(result, {"http": helper_of(page.answer)})


class _Listed:
    def __init__(self, limit: int) -> None:
        self._items: list[Any] = []
        self._limit = limit
        self._size = 0

    def add(self, page: Page) -> None:
        self._items += page.items
        self._size += len(page.answer.body)
        if self._size > 2 * self._limit:
            raise TaskError(
                f"{page.number} pages have {self._size} bytes, and a result has at most {self._limit}",
                kind="storage_quota",
                code="result_too_large",
                hint="stream the items into a result of their own: `stream: true`",
                details={"limit": self._limit},
            )

    def close(self, pages: int, count: int) -> list[Any]:
        return self._items


class _Lines:
    def __init__(self, writer: ArtifactWriter) -> None:
        self._writer = writer

    def add(self, page: Page) -> None:
        self._writer.write(b"".join(codec.encode(item) + b"\n" for item in page.items))

    def close(self, pages: int, count: int) -> dict[str, Any]:
        return self._writer.close({"row_count": count, "pages": pages})


def _pages(params: Params, how: Paginate, context: TaskContext) -> Iterator[tuple[Page, bool]]:
    """Each page, and whether there is another one."""
    course = _Course(params, how)
    caller = _Caller(params, how, context)
    first = request_of(course.params_of(course.start), context)
    request, number = first, 1
    while True:
        answer = caller.call(request, number)
        page = _page(number, answer, how)
        following = course.after(page)
        yield page, following is not None
        if following is None or number == how.max_pages:
            return
        if number == (how.max_pages or MOST_PAGES):
            raise _wrong(
                page, "too_many_pages", f"there are more than {MOST_PAGES} pages", "say how many: `max_pages`"
            )
        number += 1
        if isinstance(following, Target):
            request = replace(first, url=following)
            if following.origin != first.url.origin:
                request = without_credentials(request)
        else:
            request = request_of(course.params_of(following), context)
        request = _numbered(request, number, context.idempotency_key)


def _numbered(request: Request, number: int, key: str) -> Request:
    """Make a page a request of its own; a key that the playbook set stays."""
    headers = {
        name: f"{value}/{number}" if name == "Idempotency-Key" and value == key else value
        for name, value in request.headers.items()
    }
    return replace(request, headers=headers)


def _page(number: int, answer: Answer, how: Paginate) -> Page:
    value = data_of(answer)[0]
    items = select(value, how.items)
    page = Page(number, answer, value, items if isinstance(items, list) else [])
    if isinstance(items, list) or (items is None and (number > 1 or answer.status == 204)):
        return page
    found = "nothing" if items is None else _a(items)
    lists = (
        [name for name, entry in value.items() if isinstance(entry, list)]
        if isinstance(value, Mapping)
        else []
    )
    hint = f"the list of items may be {' or '.join(f'$.{name}' for name in lists[:5])}" if lists else None
    raise _wrong(
        page, "pagination", f"there is {found} at {how.items}, where a list of items should be", hint
    )


def _a(value: Any) -> str:
    """Name a value's type in words of JSON."""
    names = ((bool, "a truth value"), (str, "a text"), (int | float, "a number"), (Mapping, "a mapping"))
    return next((name for kind, name in names if isinstance(value, kind)), "a list")


def _wrong(page: Page, code: str, what: str, hint: str | None = None) -> TaskError:
    return TaskError(
        f"page {page.number} of {page.answer.url}: {what}",
        kind="client_error",
        code=code,
        hint=hint,
        details={"page": page.number},
    )


class _Course:
    """From one page to the next."""

    def __init__(self, params: Params, how: Paginate) -> None:
        self._params = params
        self._how = how
        self._param = how.param or how.by
        self._passed = 0
        self._seen: set[str] = set()
        self.start = how.start if how.start is not None else self._first_number()

    def _first_number(self) -> int | None:
        """Return the first number, where the playbook does not say `start`.

        It is the number that its address or parameters have in that place.
        """
        usual = {"page": 1, "offset": 0}.get(self._how.by)
        if usual is None or self._how.send != "query":
            return usual
        number = str((self._params.params or {}).get(self._param, parameter(self._params.url, self._param)))
        return int(number) if re.fullmatch(r"[0-9]{1,18}", number) else usual

    def params_of(self, place: int | str | None) -> Params:
        """Return the call for a number, offset or cursor."""
        if place is None:
            return self._params
        name = "params" if self._how.send == "query" else "body"
        given = self._params.params if name == "params" else self._params.body
        url = self._params.url
        if name == "params":
            url = without_parameter(url, self._param)
        if given is not None and not isinstance(given, dict):
            raise TaskError(
                "the place of a page can only be sent in a body that is a mapping",
                kind="client_error",
                code="pagination",
            )
        return self._params.model_copy(update={"url": url, name: {**(given or {}), self._param: place}})

    def after(self, page: Page) -> int | str | Target | None:
        """Return the place of the next page; None after the last."""
        how = self._how
        self._passed += len(page.items)
        if how.more is not None and not select(page.value, how.more):
            return None
        if how.until is not None and select(page.value, how.until):
            return None
        if how.by in ("page", "offset"):
            return self._counted(page)
        found = _next_link(page.answer) if how.by == "link" else select(page.value, how.next or "$")
        if found is None or found == "" or found is False:
            return None
        if isinstance(found, bool) or not isinstance(found, (str, int)):
            raise _wrong(page, "pagination", f"{how.next} is {_a(found)}, not the next {how.by}")
        place = found if how.by == "cursor" else self._address(page, str(found))
        address = place.url if isinstance(place, Target) else str(place)
        if address in self._seen:
            raise _wrong(page, "pagination", "it leads to a page that was read before")
        self._seen.add(address)
        return place

    def _counted(self, page: Page) -> int | None:
        how = self._how
        is_last = not page.items if how.size is None else len(page.items) < how.size
        if is_last and (how.more is None or not page.items):
            return None
        start = int(self.start or 0)
        return start + (page.number if how.by == "page" else self._passed)

    def _address(self, page: Page, found: str) -> Target:
        target = joined(page.answer.url, found)
        base = parse_url(self._params.url)
        elsewhere = target.origin != base.origin and target.host not in {
            host.lower() for host in self._how.hosts
        }
        if elsewhere or (base.scheme == "https" and target.scheme != "https"):
            raise _wrong(
                page,
                "page_elsewhere",
                f"the next page would be at {target.scheme}://{target.authority}",
                f"name the host, if that is right: hosts: [{target.host}]",
            )
        return target


def _next_link(answer: Answer) -> str | None:
    for address, about in _LINK.findall(answer.headers.get("link", "")):
        for quoted, bare in _REL.findall(about):
            if "next" in (quoted or bare).lower().split():
                return str(address)
    return None


class _Caller:
    """Makes one page's call, again where that helps, within the time of the whole."""

    def __init__(self, params: Params, how: Paginate, context: TaskContext) -> None:
        self._retry = how.retry
        self._follow = params.follow_redirects
        self._context = context
        self._limits = limits_of(params, context, streamed=False)
        self._deadline = time.monotonic() + self._limits.total

    def call(self, request: Request, number: int) -> Answer:
        tried = 0
        while True:
            tried += 1
            try:
                return self._once(request)
            except TaskError as error:
                error.details["page"] = number
                if error.kind == "timeout" and error.status is None and time.monotonic() >= self._deadline:
                    raise self._too_slow(number) from error
                retry_after = error.details.get("retry_after")
                pause = max(
                    self._retry.delay * 2 ** (tried - 1),
                    retry_after if isinstance(retry_after, float) else 0.0,
                )
                late = time.monotonic() + pause >= self._deadline
                if not error.retryable or tried >= self._retry.attempts or late or pause > LONGEST_PAUSE:
                    raise
            self._wait(pause)

    def _too_slow(self, number: int) -> TaskError:
        """Make the error of pages that took too long together."""
        return TaskError(
            f"{number - 1} pages were read, and the {self._limits.total:g} s for all of them are over",
            kind="timeout",
            code="timeout",
            retryable=True,
            hint="does the API ever end? Else give it more time (`spec.timeout`), or read fewer pages (`max_pages`)",
            details={"page": number},
        )

    def _once(self, request: Request) -> Answer:
        limits = self._limits
        left = max(0.001, self._deadline - time.monotonic())
        limits = replace(limits, total=left, connect=min(limits.connect, left), read=min(limits.read, left))
        answer = send(request, limits, follow_redirects=self._follow)
        if answer.status >= 400 or answer.status < 200:
            raise failure_of(request, answer)
        return answer

    def _wait(self, pause: float) -> None:
        until = time.monotonic() + pause
        while (left := until - time.monotonic()) > 0:
            if self._context.cancelled():
                raise TaskError("the execution was cancelled", kind="cancelled", code="cancelled")
            time.sleep(min(left, 0.5))
