"""Any JSON value with templates in its texts, rendered against a scope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.domain.errors import InvalidInputError, NoetlError, OverloadedError
from noetl.domain.sizes.gate import weight
from noetl.dsl.program import Expr, Text
from noetl.services.queries.rendered_values import RenderError
from noetl.templating import DEFAULT_LIMITS, Meter, Scope, render

MOST_TEMPLATES = 50
"""Texts with templates in one request."""
MOST_DEPTH = 100
_READING = 8
"""Operations that reading one character of a template takes."""
_WEIGHED = 8
"""Weight of a value in the answer that takes one operation."""


class TemplateWriter:
    """A renderer of texts, one by one, so that one that fails does not hide the others.

    All texts together may use the budget of one template.
    """

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.meter = Meter(DEFAULT_LIMITS)
        self.errors: list[RenderError] = []
        self.templates = 0

    def render(self, value: Any, path: str, depth: int) -> Any:
        if depth > MOST_DEPTH:
            raise InvalidInputError(
                f"the template is nested more than {MOST_DEPTH} deep", code="template_too_large"
            )
        self.meter.tick()  # a document of plain values takes its time as well
        if isinstance(value, str):
            return self._text(value, path) if "{" in value else value
        if isinstance(value, Mapping):
            return {
                key: self.render(one, f"{path}.{key}" if path else key, depth + 1)
                for key, one in value.items()
            }
        if isinstance(value, list):
            return [self.render(one, f"{path}[{place}]", depth + 1) for place, one in enumerate(value)]
        return value

    def _text(self, text: str, path: str) -> Any:
        # The reader of templates is the compiler's, which an API that serves other requests need not load.
        from noetl.dsl.expressions import analyse, has_template
        from noetl.dsl.template_rules import TemplateProblem

        if not has_template(text):
            return text
        self.templates += 1
        if self.templates > MOST_TEMPLATES:
            raise InvalidInputError(
                f"more than {MOST_TEMPLATES} templates at once",
                code="template_too_large",
                hint="send them in several requests",
            )
        try:
            self.meter.tick(_READING * len(text))
            expression = analyse(text).expression
            found = render(Text(text) if expression is None else Expr(expression), self.scope, self.meter)
            self.meter.tick(weight(found, self.meter.limits.max_total) // _WEIGHED)
            return found
        except TemplateProblem as problem:
            self._failed(path, problem.code.replace("-", "_"), problem.message, problem.hint)
        except OverloadedError:
            raise
        except NoetlError as error:
            self._failed(path, error.code, error.message, error.hint)
        return None

    def _failed(self, path: str, code: str, message: str, hint: str | None) -> None:
        self.errors.append(RenderError(path, code, message, hint))
