"""Rules about the root of the document, its metadata and its executor."""
