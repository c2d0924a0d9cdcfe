"""What the compiler says of admissions that decide nothing."""

from __future__ import annotations

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.dsl.diagnostics import InvalidPlaybookError
from noetl.kinds.registry import default_registry

TEXT = """apiVersion: noetl.io/v2
kind: Playbook
metadata: { name: it, path: it }
workflow:
  - step: start
    spec: { policy: { admit: { when: "{{ ctx.go }}" } } }
    tool: { kind: noop }
"""


def test_an_admission_without_rules_is_refused_with_its_place():
    """The lint of admissions looked for the last rule, and broke the compiler."""
    with pytest.raises(InvalidPlaybookError, match=r"it\.yaml:6:30: missing-key: `rules` is missing"):
        compile_playbook(TEXT, source_name="it.yaml", kinds=default_registry())
