"""One synthesis per session and environment: starting jsii takes seconds, and so does the first synthesis."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest

from infra.layer_build import build_layer
from noetl.domain.kinds import KindLookup
from tests.infra.extended import PLAYBOOKS, SIGN_IN, extended_kinds, extensions, write_ui
from tests.infra.templates import Templates

os.environ.setdefault("JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION", "1")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def synthesise(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Path]]:
    """(environment, kinds, changes, context) → folder of the cloud assembly. cdk-nag runs along: a finding fails.

    ``changes``: fields of the environment that are otherwise.
    """
    import aws_cdk as cdk

    from infra.constructs import nag
    from infra.environments import load_environment
    from infra.stacks_of import build
    from noetl.kinds.registry import default_registry

    # The templates name layers by their digests; copies of them beside each assembly would take most of its time.
    flags = json.loads((ROOT / "cdk.json").read_text())["context"] | {"aws:cdk:disable-asset-staging": True}

    def make(
        name: str,
        kinds: KindLookup | None = None,
        changes: Mapping[str, object] = MappingProxyType({}),
        **context: str,
    ) -> Path:
        folder = tmp_path_factory.mktemp(name)
        app = cdk.App(outdir=str(folder), context=flags)
        nag.add_checks(app)
        build(app, replace(load_environment(name, context), **changes), kinds or default_registry())
        app.synth()
        return folder

    with pytest.MonkeyPatch.context() as patch:
        # Whether a layer is fresh is seen from the content of all of its sources, and each stack with functions asks for it.
        built = functools.cache(build_layer)
        patch.setattr("infra.constructs.layers.build_layer", built)
        patch.setattr("infra.stacks_of.build_layer", built)
        yield make


@pytest.fixture(scope="session")
def dev(synthesise: Callable[..., Path]) -> Path:
    return synthesise("dev", alarm_email="ops@example.com")


@pytest.fixture(scope="session")
def staging(synthesise: Callable[..., Path]) -> Path:
    return synthesise("staging", alarm_email="ops@example.com")


@pytest.fixture(scope="session")
def prod(synthesise: Callable[..., Path]) -> Path:
    return synthesise("prod", alarm_email="ops@example.com")


@pytest.fixture(scope="session")
def extended(synthesise: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Templates:
    """Dev with everything that may be added: kinds, containers, playbooks that have triggers, the web UI."""
    build = tmp_path_factory.mktemp("dist")
    write_ui(build)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("infra.stacks.web.ui_folder", lambda: build)
        made = synthesise("dev", extended_kinds(), extensions(), playbooks=PLAYBOOKS, **SIGN_IN)
    return Templates(made, "Noetl-dev-")


@pytest.fixture
def assembly(request: pytest.FixtureRequest) -> Path:
    """The environment that the test is parametrised with."""
    found: Path = request.getfixturevalue(request.param)
    return found
