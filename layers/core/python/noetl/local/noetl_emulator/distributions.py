"""Distributions of CloudFront on this machine, with API Gateway behind them.

Browsers resolve names below ``localhost``. The emulator serves a distribution at ``<label>.cloudfront.net``, and refuses origins of AWS's names.
"""

from __future__ import annotations

import functools
import re
from typing import Any
from urllib.parse import parse_qs

_VIEWED = re.compile(r"^([a-z0-9]+)\.cloudfront\.(?:net|localhost)(?::\d+)?$")
_API = re.compile(r"^([a-z0-9]+)\.execute-api\.[a-z0-9-]+\.amazonaws\.com$")


def improve() -> None:
    """Patch the emulator (its version is pinned)."""
    import ministack.app
    from ministack.services import cloudfront

    ministack.app._CLOUDFRONT_HOST_RE = _VIEWED
    cloudfront._fetch_from_origin = functools.partial(_fetch, ministack.app, cloudfront._fetch_from_origin)


async def _fetch(app: Any, fetch: Any, origin: dict[str, Any], *request: Any) -> Any:
    """Answer for an API of this emulator; any other origin as before."""
    found = _API.match(origin["domain_name"])
    if found is None:
        return await fetch(origin, *request)
    method, uri, query, headers, body = request[:5]
    path = f"/_aws/execute-api/{found[1]}{uri}"
    given = {name.lower(): value for name, value in headers.items()} | {"host": "127.0.0.1"}
    params = parse_qs(query, keep_blank_values=True)
    answer = await app._handle_execute_api_request(
        "127.0.0.1", path, method, given, body, params, raw_path=path, raw_query_string=query
    )
    status, shown, data = answer
    pairs = shown.items() if isinstance(shown, dict) else shown
    return status, "", {name.lower(): value for name, value in pairs}, data
