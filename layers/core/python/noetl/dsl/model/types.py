"""Field types that the models share: templates or values, guards, durations, names."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationInfo, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from noetl.domain.collection_sources import SCHEMES, SOURCE_KEYS, is_source
from noetl.domain.durations import HINT, PATTERN, parse_duration
from noetl.domain.sizes.table import IDENTIFIER, PRIORITY
from noetl.dsl.expressions import has_template

TEMPLATE_SCHEMA: dict[str, Any] = {"type": "string", "pattern": r"\{\{|\{%"}
TRUE_WORDS = frozenset({"true", "1", "yes"})
FALSE_WORDS = frozenset({"false", "0", "no", "none", ""})
RESERVED = frozenset({"ctx", "vars", "workload", "keychain", "iter", "args", "loop", "event"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_\-]*\Z")


class Strict(BaseModel):
    """A mapping whose unknown keys are refused.

    The class that read a mapping is noted for "did you mean".
    """

    model_config = ConfigDict(extra="forbid", strict=True, populate_by_name=False)

    @model_validator(mode="before")
    @classmethod
    def _note_reader(cls, data: Any, info: ValidationInfo) -> Any:
        if isinstance(info.context, dict) and isinstance(data, dict):
            info.context[id(data)] = cls
        return data

    @classmethod
    def known_keys(cls) -> list[str]:
        """Return the keys as they are written."""
        return [field.alias or name for name, field in cls.model_fields.items()]


def problem(code: str, message: str, hint: str | None = None) -> PydanticCustomError:
    """Make a problem found by a validator, carried to ``shape`` as it is."""
    return PydanticCustomError("noetl", "{message}", {"message": message, "code": code, "hint": hint})


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def is_template(value: Any) -> bool:
    return isinstance(value, str) and has_template(value)


def _number(
    what: str, lowest: float, highest: int | None = None, *, integer: bool = False, template: bool = True
) -> Callable[[Any], Any]:
    kind = ("a whole number" if integer else "a number") + (" or a template" if template else "")

    def check(value: Any) -> Any:
        if template and is_template(value):
            return value
        allowed = int if integer else (int, float)
        if isinstance(value, bool) or not isinstance(value, allowed):
            raise problem(
                "wrong-type", f"{what} must be {kind}, not {_shown(value)}", _number_hint(value, template)
            )
        if value < lowest:
            raise problem(
                "out-of-range",
                f"{what} is {value}; it must be at least {lowest:g}",
                f"write {lowest:g} or more",
            )
        if highest is not None and value > highest:
            raise problem(
                "out-of-range",
                f"{what} is {str(value)[:40]}; it must be at most {highest}",
                f"write {highest} or less",
            )
        return value

    return check


def _number_hint(value: Any, template: bool) -> str:
    return "write it without quotes, or as {{ … }}" if template else "write digits, without quotes"


def _duration(what: str, lowest: float) -> Callable[[Any], Any]:
    """Check a number of seconds, a duration as people write it, or a template."""
    check_number = _number(what, lowest)

    def check(value: Any) -> Any:
        if is_template(value) or not isinstance(value, str):
            return check_number(value)
        seconds = parse_duration(value)
        if seconds is None:
            raise problem("wrong-type", f"{what} cannot be {_shown(value)}", HINT)
        check_number(seconds)
        return value

    return check


def _duration_type(what: str, lowest: float) -> Any:
    schema = {
        "anyOf": [
            {"type": "number", "minimum": lowest},
            {"type": "string", "pattern": PATTERN},
            TEMPLATE_SCHEMA,
        ]
    }
    return Annotated[Any, PlainValidator(_duration(what, lowest)), WithJsonSchema(schema)]


def _number_type(check: Callable[[Any], Any], literal: dict[str, Any]) -> Any:
    return Annotated[Any, PlainValidator(check), WithJsonSchema({"anyOf": [literal, TEMPLATE_SCHEMA]})]


Seconds = _duration_type("a duration", 0)
Lifetime = _duration_type("the time to live", 1)
Attempts = _number_type(_number("the number of tries", 1, integer=True), {"type": "integer", "minimum": 1})
Count = _number_type(_number("the limit", 1, integer=True), {"type": "integer", "minimum": 1})
Rate = _number_type(_number("the rate", 1e-6), {"type": "number", "minimum": 1e-6})
Period = _duration_type("the period", 1e-3)
Priority = _number_type(
    _number("the priority", -PRIORITY.value, PRIORITY.value, integer=True),
    {"type": "integer", "minimum": -PRIORITY.value, "maximum": PRIORITY.value},
)
Cost = _number_type(_number("the cost", 0), {"type": "number", "minimum": 0})
Factor = _number_type(_number("the multiplier", 0), {"type": "number", "minimum": 0})
Bytes = Annotated[
    int,
    PlainValidator(_number("a size in bytes", 0, integer=True, template=False)),
    WithJsonSchema({"type": "integer", "minimum": 0}),
]


def _guard(value: Any) -> Any:
    if isinstance(value, bool) or is_template(value) or value in (0, 1):
        return value
    if isinstance(value, str):
        if value.strip().lower() in TRUE_WORDS | FALSE_WORDS:
            return value
        raise problem(
            "guard-not-template",
            f"the guard {_shown(value)} is plain text, never evaluated",
            f'write "{{{{ {value} }}}}"',
        )
    raise problem(
        "wrong-type", f"a guard is a template or true/false, not {_shown(value)}", 'write "{{ … }}"'
    )


_WORDS = "|".join(
    "".join(f"[{char.upper()}{char}]" if char.isalpha() else char for char in word)
    for word in sorted(TRUE_WORDS | FALSE_WORDS)
)
Guard = Annotated[
    Any,
    PlainValidator(_guard),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"enum": [0, 1]},
                TEMPLATE_SCHEMA,
                {"type": "string", "pattern": rf"^\s*({_WORDS})\s*$"},
            ]
        }
    ),
]


def _name(what: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if not isinstance(value, str):
            raise problem("wrong-type", f"{what} must be text, not {_shown(value)}", "quote it")
        if has_template(value):
            raise problem(
                "template-not-allowed", f"{what} must be a literal, not a template", "write the name itself"
            )
        if not NAME.match(value):
            raise problem(
                "bad-name",
                f"{what} {_shown(value)} cannot be used as a name",
                "use letters, digits, _ and -, beginning with a letter or _",
            )
        if len(value) > IDENTIFIER.value:
            raise problem(
                "name-too-long",
                f"{what} has {len(value)} characters, more than {IDENTIFIER.value}",
                "choose a shorter name",
            )
        return value

    return check


def _new_name(what: str) -> Callable[[Any], Any]:
    check_name = _name(what)

    def check(value: Any) -> Any:
        if check_name(value) in RESERVED:
            raise problem(
                "reserved-name",
                f"{what} {value!r} would hide the scope of that name",
                f"call it {value}_step",
            )
        return value

    return check


def _name_type(check: Callable[[Any], Any]) -> Any:
    return Annotated[
        str,
        PlainValidator(check),
        WithJsonSchema(
            {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_-]*$", "maxLength": IDENTIFIER.value}
        ),
    ]


StepName = _name_type(_new_name("the step name"))
TaskLabel = _name_type(_name("the task label"))
IteratorName = _name_type(_new_name("the iterator"))
StepRef = _name_type(_name("the step to go to"))
Identifier = _name_type(_name("the name"))


def _collection(value: Any) -> Any:
    if isinstance(value, list) or is_template(value):
        return value
    if not is_source(value):
        raise problem(
            "wrong-type",
            f"the collection must be a list, a template or where one is, not {_shown(value)}",
            'write "{{ … }}", a YAML list, or s3://bucket/key.csv',
        )
    unknown = sorted(set(value) - SOURCE_KEYS) if isinstance(value, dict) else []
    if unknown:
        raise problem(
            "unknown-key",
            f"`{unknown[0]}` is not a key of a collection",
            f"it has one of {', '.join(SCHEMES)}, and {', '.join(sorted(SOURCE_KEYS - set(SCHEMES)))}",
        )
    return value


_WHERE = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in sorted(SOURCE_KEYS)},
    "additionalProperties": False,
    "anyOf": [{"required": [scheme]} for scheme in SCHEMES],
}
Collection = Annotated[
    Any,
    PlainValidator(_collection),
    WithJsonSchema(
        {"anyOf": [{"type": "array"}, TEMPLATE_SCHEMA, {"type": "string", "pattern": "^(s3|file):"}, _WHERE]}
    ),
]


def _nested(what: str) -> Callable[[Any], Any]:
    def check(value: Any) -> Any:
        if isinstance(value, dict) and value:
            return value
        raise problem(
            "wrong-type", f"{what} is a mapping of names to values, not {_shown(value)}", "write name: value"
        )

    return check


SetBlock = Annotated[
    Any, PlainValidator(_nested("a `set` block")), WithJsonSchema({"type": "object", "minProperties": 1})
]
VarsBlock = Annotated[
    Any, PlainValidator(_nested("`vars`")), WithJsonSchema({"type": "object", "minProperties": 1})
]


def _plain_text(value: Any) -> Any:
    if isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    raise problem("wrong-type", f"this must be text, not {_shown(value)}", "quote it")


TextLike = Annotated[str, PlainValidator(_plain_text), WithJsonSchema({"type": ["string", "number"]})]
