"""The document model: every shape the language accepts, in both forms and all spellings.

The models are the gate that a document passes before it is lowered, and the source of its JSON Schema.
They check shapes and literal values; meaning (references, scopes, reachability) is checked afterwards.
"""

from noetl.dsl.model.document import Document

__all__ = ["Document"]
