"""Every example through the deployed API, held to what the tests of local runs say about it.

The tests are those of ``tests/integration/examples``; here ``local`` is the deployment.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.remote import EXAMPLES
from tests.integration.examples import test_examples as by_hand
from tests.integration.examples import test_seattle_weather as weather
from tests.integration.examples.api import Api, ApiServer

OTHERWISE = {"test_an_operator_decides"}
"""Has its own test, in ``test_control.py``: who decided is told by the API's authorizer."""


def _shared(module: Any) -> dict[str, Any]:
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_")
        and inspect.isfunction(test)
        and "local" in inspect.signature(test).parameters
        and name not in OTHERWISE
    }


globals().update(_shared(by_hand) | _shared(weather))
observations = weather.observations


@pytest.fixture
def local(remote: Any) -> Any:
    return remote


@pytest.fixture
def api() -> Iterator[Api]:
    with ApiServer(Api()) as running:
        yield running


def test_no_example_is_left_out() -> None:
    sources = "".join(inspect.getsource(test) for test in (_shared(by_hand) | _shared(weather)).values())
    missing = [folder.name for folder in EXAMPLES.iterdir() if f'local.run("{folder.name}"' not in sources]
    assert missing == []
