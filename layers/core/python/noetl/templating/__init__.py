"""Templates: sandboxed expressions over workflow data that keep the type of their value.

The syntax is Jinja's. The evaluation is this package's own, because a template comes from any user who may register a playbook:
it is never turned into Python code, reaches no Python attribute, and every operation has a bound.
"""

from noetl.templating.contract import Hydrate, MappingScope, RenderedSql, RenderedStatement, Scope
from noetl.templating.evaluate import check, is_true, render
from noetl.templating.limits import DEFAULT_LIMITS, Meter, TemplateLimits
from noetl.templating.plain import unwrap
from noetl.templating.sql import plain_sql, render_sql
from noetl.templating.sql_split import split
from noetl.templating.step_view import StepView
from noetl.templating.views import MISSING, LoopView, MapView, RefView, RowsView, View, content, wrap

__all__ = [
    "DEFAULT_LIMITS",
    "MISSING",
    "Hydrate",
    "LoopView",
    "MapView",
    "MappingScope",
    "Meter",
    "RefView",
    "RenderedSql",
    "RenderedStatement",
    "RowsView",
    "Scope",
    "StepView",
    "TemplateLimits",
    "View",
    "check",
    "content",
    "is_true",
    "plain_sql",
    "render",
    "render_sql",
    "split",
    "unwrap",
    "wrap",
]
