"""JSON Schemas of users: whether one is valid, and what of a value does not fit."""
