"""Values whose quotes are doubled before SQL binds them.

``set: { ctx.name: "{{ name | replace(…) }}" }`` is meant for a text of SQL, where the value would be stored with both quotes.
"""

from __future__ import annotations

import re

from noetl.dsl.lowering.context import Lowering

_ONE = r"""(?:"'"|'\\'')"""
_TWO = r"""(?:"''"|'\\'\\'')"""
_DOUBLING = re.compile(rf"[|.]\s{{0,9}}replace\(\s{{0,9}}{_ONE}\s{{0,9}},\s{{0,9}}{_TWO}\s{{0,9}}\)")


def check_escapes(lowering: Lowering) -> None:
    """Warn of doubled quotes outside of SQL, in a playbook whose SQL only binds values.

    ``raw_sql`` anywhere may be what the doubling is for.
    """
    texts = [str(use.scalar.value) for use in lowering.uses if use.sql]
    if not texts or any("raw_sql" in text for text in texts):
        return
    for use in lowering.uses:
        for found in () if use.sql else _DOUBLING.finditer(str(use.scalar.value)):
            lowering.diagnostics.warning(
                "sql-escaped-by-hand",
                "the quotes of this value are doubled, and the SQL of this playbook binds its values: both would be stored",
                use.scalar.locate(found.start()),
                hint="leave replace() out, or mark SQL that is made of texts with raw_sql",
            )
