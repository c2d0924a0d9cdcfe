"""Documents with templates in them: what they take counts, whatever it is made of."""

from __future__ import annotations

import pytest

from noetl.domain.errors import OverloadedError
from noetl.domain.long_work import asking
from noetl.services.support.template_writer import TemplateWriter
from noetl.templating import MappingScope

MANY = 100_000


@pytest.mark.parametrize("document", [[1] * MANY, {str(number): "plain" for number in range(MANY)}])
def test_a_large_document_of_plain_values_needs_a_place_among_long_work(document):
    def refuse() -> None:
        raise OverloadedError("no place", code="too_much_computing")

    with asking(refuse), pytest.raises(OverloadedError):
        TemplateWriter(MappingScope({})).render(document, "", 0)
    with asking(refuse):
        assert TemplateWriter(MappingScope({})).render([1, "{{ 1 + 1 }}"], "", 0) == [1, 2]
