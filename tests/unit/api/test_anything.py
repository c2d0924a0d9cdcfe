"""Whatever is sent, no route has an error of its own."""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.api.table import ROUTES
from tests.parts import repeated
from tests.unit.api.ground import GATED, Ground

_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
_names = {
    name
    for route in ROUTES
    if route.body is not None
    for name in getattr(route.body, "__struct_fields__", ())
}
_bodies = st.one_of(
    st.none(),
    st.text(max_size=60),
    st.dictionaries(st.sampled_from(sorted(_names)), _values, max_size=5).map(json.dumps),
    _values.map(json.dumps),
)
_texts = st.one_of(
    st.text(max_size=30), st.sampled_from(["1", "0", "-1", "latest", "formal", "waiting", "WzEsW11d"])
)
_queries = st.dictionaries(
    st.sampled_from(["after", "limit", "version", "status", "vocabulary", "path", "source_name", "count"]),
    _texts,
    max_size=4,
)
_headers = st.fixed_dictionaries(
    {},
    optional={
        "idempotency-key": st.text(max_size=300),
        "content-type": st.sampled_from(["application/json", "text/yaml", "", "×"]),
    },
)


@settings(max_examples=repeated(gate=60, full=400))
@given(
    st.sampled_from(ROUTES),
    _bodies,
    _queries,
    _headers,
    st.sampled_from(["", "known"]) | _texts,
    st.booleans(),
)
def test_no_request_breaks_anything(route, body, query, headers, part, encoded):
    ground = Ground()
    known = ground.run(GATED)
    path = re.sub(r"{\w+\+?}", lambda _: known if part == "known" else part, route.path)
    reply = ground.ask(route.method, path, body, query=query, headers=headers, base64=encoded)
    assert reply.status < 500, (route.name, body, query, reply)
    answer: Any = reply.json if reply.headers["Content-Type"].endswith("json") else {}
    assert reply.status < 400 or answer["code"], reply
    ground.settle()
