"""JSON Schema of a playbook, for editors: the document model and every kind's parameters."""

from __future__ import annotations

from typing import Any

from noetl.domain.kinds import KindLookup
from noetl.dsl.editors.schema_notes import add_notes
from noetl.dsl.editors.schema_words import describe
from noetl.dsl.kind_facts import find_spec
from noetl.dsl.lowering.tasks import EMPTY_KEYS, TASK_KEYS
from noetl.dsl.model import Document
from noetl.dsl.model.types import RESERVED

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TASK_MODELS = ("TaskBody", "NamedTask")


def playbook_schema(kinds: KindLookup) -> dict[str, Any]:
    """Build the schema (draft 2020-12); a task's parameters depend on its ``kind``."""
    schema = Document.model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
    definitions: dict[str, Any] = schema["$defs"]
    branches = []
    others: list[str] = []
    for name in kinds.names():
        spec = find_spec(kinds, name)
        if spec is None:
            continue
        others += spec.other_names
        definition = f"kind_{name}"
        parameters = _hoist(kinds.schema(name), definition, definitions)
        definitions[definition] = parameters
        names = {"enum": [name, *spec.other_names]} if spec.other_names else {"const": name}
        condition = {"properties": {"kind": names}, "required": ["kind"]}
        branches.append({"if": condition, "then": {"$ref": f"#/$defs/{definition}"}})
    for model in _TASK_MODELS:
        definitions[model]["properties"]["kind"] = {"enum": [*kinds.names(), *others]}
        definitions[model]["allOf"] = branches
    _add_conditions(definitions)
    describe(schema)
    add_notes(schema)
    return {
        "$schema": DIALECT,
        "title": "NoETL playbook",
        **{k: v for k, v in schema.items() if k != "title"},
    }


def _add_conditions(definitions: dict[str, Any]) -> None:
    """Add what the models check beside the types of single keys."""
    rule = {
        "anyOf": [
            {"required": ["when", "then"], "not": {"required": ["else"]}},
            {"required": ["else"], "maxProperties": 1},
        ]
    }
    for model in ("PolicyRule", "AdmitRule"):
        definitions[model] |= rule
    jumps = {"properties": {"do": {"const": "jump"}}, "required": ["do"]}
    definitions["RuleThen"] |= {"if": jumps, "then": {"required": ["to"]}}
    definitions["ScheduleBlock"]["oneOf"] = [{"required": ["cron"]}, {"required": ["rate"]}]
    for model, key in (("StepBlock", "step"), ("LoopBlock", "iterator")):
        definitions[model]["properties"][key]["not"] = {"enum": sorted(RESERVED)}
    definitions["StepBlock"] |= {
        "if": {"anyOf": [{"required": [key]} for key in ("case", "vars", "sink")]},
        "then": {
            "properties": {
                "next": {"not": {"type": "object", "required": ["arcs"]}},
                "tool": {"type": ["object", "null"]},
            },
            "not": {"anyOf": [{"required": [key]} for key in ("set", "set_ctx")]},
        },
        "dependentSchemas": {
            key: {"properties": {"next": {"type": ["object", "null"]}}} for key in ("set", "set_ctx")
        },
    }


def _hoist(schema: dict[str, Any], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Make a kind's schema a part of the document's schema.

    Its definitions move up, and the task's own keys are allowed beside it.
    """
    own: dict[str, Any] = schema.get("$defs", {})
    for name, definition in own.items():
        definitions[f"{prefix}_{name}"] = _renamed(definition, prefix)
    parameters: dict[str, Any] = _renamed({k: v for k, v in schema.items() if k != "$defs"}, prefix)
    allowed = dict.fromkeys(sorted(TASK_KEYS), True)
    own_parameters = parameters.get("properties", {})
    empty = {key: _or_empty(own_parameters.get(key)) for key in EMPTY_KEYS}
    parameters["properties"] = {**allowed, **own_parameters, **empty}
    return parameters


def _or_empty(parameter: Any) -> dict[str, Any]:
    empty = {"type": "object", "maxProperties": 0, "description": "An empty mapping means nothing."}
    if parameter is None:
        return empty
    return {"anyOf": [parameter, empty], "description": parameter.get("description", "")}


def _renamed(part: Any, prefix: str) -> Any:
    if isinstance(part, dict):
        return {
            key: _reference(value, prefix) if key == "$ref" else _renamed(value, prefix)
            for key, value in part.items()
        }
    if isinstance(part, list):
        return [_renamed(item, prefix) for item in part]
    return part


def _reference(value: Any, prefix: str) -> Any:
    return value.replace("#/$defs/", f"#/$defs/{prefix}_", 1) if isinstance(value, str) else value
