"""Document tree → ``Program``: one module per part of the language."""

from noetl.dsl.lowering.document import lower

__all__ = ["lower"]
