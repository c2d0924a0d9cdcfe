"""JSON Schemas that users write: whether they can be used, and what of a value does not fit."""
