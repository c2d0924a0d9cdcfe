"""The table of all size limits.

``docs/limits.md`` is generated from it, and ``domain/sizes/gate.py`` checks input against it.

A module that enforces a limit takes the number from here, so that no limit is written twice. What an installation may change is marked
with the name of its setting.
"""

from __future__ import annotations

from typing import Literal

import msgspec

Unit = Literal[
    "characters", "bytes", "levels", "digits", "entries", "seconds", "operations", "bits", "runs", "value"
]
Area = Literal["names", "documents", "playbooks", "templates", "executions", "requests", "schedules"]
AREAS: dict[Area, str] = {
    "names": "Names and keys",
    "documents": "Payloads and other documents",
    "playbooks": "Playbooks",
    "templates": "Templates",
    "executions": "Executions",
    "requests": "Requests",
    "schedules": "Schedules and triggers",
}
"""The sections of the page, in their order."""


class Size(msgspec.Struct, frozen=True):
    """One limit. ``value``: the most that is accepted, in ``unit``.

    ``what``: what it limits; ``where``: who refuses more, and with which code. ``setting``: the setting of an installation that changes
    it.
    """

    name: str
    area: Area
    value: int
    unit: Unit
    what: str
    where: str
    setting: str = ""


def _size(name: str, area: Area, value: int, unit: Unit, what: str, where: str, setting: str = "") -> Size:
    size = Size(name, area, value, unit, what, where, setting)
    _TABLE.append(size)
    return size


_TABLE: list[Size] = []
_GATE = "the API, the command line and the engine (`size_limit`)"
_COMPILER = "the compiler"
KIB, MIB = 1024, 1024 * 1024

# One limit takes three lines here, not ten: the table is read as a table.
# fmt: off

# --- names and keys ---

NAME = _size("name", "names", 255, "characters",
    "a key at the top of a payload, a name in `ctx` or `vars`",
    f"{_GATE}; the compiler (`name-too-long`)")
IDENTIFIER = _size("identifier", "names", 128, "characters",
    "a step, a task label, an iterator, an entry of `keychain` or `workbook`",
    "the compiler (`name-too-long`)")
PATH = _size("path", "names", 512, "characters",
    "the path of a playbook in the catalog",
    "registering, starting, schedules and triggers of the API, `noetl trigger add` (`invalid_path`)")
SOURCE_NAME = _size("source_name", "names", 512, "characters",
    "`source_name` of a playbook that is sent: every diagnostic shows it",
    "registering and migrating by the API (`invalid_source_name`)")
PLAYBOOK_NAME = _size("playbook_name", "names", 255, "characters",
    "`metadata.name`",
    "the compiler (`name-too-long`)")
SCHEDULE_NAME = _size("schedule_name", "names", 64, "characters",
    "the name of a schedule",
    "the compiler (`invalid-schedule-name`), the API (`invalid_schedule_name`)")
TRIGGER_NAME = _size("trigger_name", "names", 48, "characters",
    "the name of a trigger",
    "the API and the command line (`invalid_trigger_name`)")
CREDENTIAL_NAME = _size("credential_name", "names", 128, "characters",
    "the name of a credential",
    "the API and the command line (`invalid_credential_name`)")
CREDENTIAL_TYPE = _size("credential_type", "names", 64, "characters",
    "the type of a credential",
    "the API and the command line (`invalid_credential`)")
LIMIT_KEY = _size("limit_key", "names", 200, "characters",
    "a key of `spec.limits` or `executor.spec.concurrency`",
    "the engine (`template_type`), the API and the command line (`invalid_limit`)")
LOCK_NAME = _size("lock_name", "names", 200, "characters",
    "the name in `spec.mutex`",
    "the engine (`template_type`)")
WORKER_NAME = _size("worker_name", "names", 200, "characters",
    "the name of a worker that fetches commands over HTTP",
    "the API (`body_invalid`)")
COMMAND_NAME = _size("command_name", "names", 200, "characters",
    "a command's id in an address",
    "the API (`invalid_command`)")
IDEMPOTENCY_KEY = _size("idempotency_key", "names", 255, "characters",
    "the header `Idempotency-Key`; a hash of it is kept",
    "the API (`invalid_parameter`)")
CORRELATION_ID = _size("correlation_id", "names", 255, "characters",
    "`correlation_id` of a request",
    "the API and the command line (`size_limit`)")
REASON = _size("reason", "names", 2000, "characters",
    "the reason in a request",
    "the API and the command line (`size_limit`)")
LABEL = _size("label", "names", 200, "characters",
    "the name or the value of a label of an execution",
    "the API and the command line (`invalid_label`)")
LABELS = _size("labels", "names", 32, "entries",
    "labels of an execution, with those of its playbook",
    "the API and the command line (`size_limit`)")
SAVED_VIEW_NAME = _size("saved_view_name", "names", 100, "characters",
    "the name of a saved view of the web UI",
    "the API (`invalid_saved_view`)")
REFERENCE = _size("reference", "names", 1000, "characters",
    "the reference of a result",
    "the API (`invalid_reference`) and the engine, which counts bytes of UTF-8 and forgets longer ones")

# --- payloads and other documents ---

DOCUMENT_BYTES = _size("document_bytes", "documents", 5 * MIB, "bytes",
    "a payload, arguments, variables or a patch, as JSON",
    _GATE)
DOCUMENT_KEYS = _size("document_keys", "documents", 1000, "entries",
    "keys at the top of a payload, variables set by one request, names in a patch",
    _GATE)
DOCUMENT_DEPTH = _size("document_depth", "documents", 200, "levels",
    "lists and mappings nested in a document, or in the result of a task",
    f"{_GATE}; tasks (`unstorable_result`)")
INTEGER_DIGITS = _size("integer_digits", "documents", 4000, "digits",
    "a whole number in a document or in the result of a task, and the sum of an `add`",
    f"{_GATE}; tasks (`unstorable_result`); the compiler (`yaml-number`)")
PATCH_OPERATIONS = _size("patch_operations", "documents", 1000, "entries",
    "operations of one JSON Patch",
    "the API and the command line (`invalid_patch`)")
SCHEMA_OPERATIONS = _size("schema_operations", "documents", 1_000_000, "operations",
    "keywords of a JSON Schema applied to values, in one check of a payload or of a callback's body; 200 characters times instructions of "
    "a pattern count as one",
    "the API and the command line (`schema_limit`)")
SCHEMA_NESTING = _size("schema_nesting", "documents", 180, "levels",
    "keywords of a JSON Schema applied inside each other, in one check of a payload or of a callback's body: a schema that refers to itself "
    "applies up to three for each level of the value",
    "the API and the command line (`schema_limit`)")
SET_DEPTH = _size("set_depth", "documents", 32, "levels",
    "keys in the name of one `--set`",
    "the command line (`invalid_set`)")

# --- playbooks ---

PLAYBOOK_BYTES = _size("playbook_bytes", "playbooks", 2 * MIB, "bytes",
    "the text of a playbook",
    f"{_COMPILER} (`yaml-too-large`)")
MIGRATED_BYTES = _size("migrated_bytes", "playbooks", 256 * KIB, "bytes",
    "the text of a playbook that a request formats, or rewrites to today's language; `noetl fmt` and `noetl migrate` take any playbook",
    "the API (`size_limit`)")
PLAYBOOK_DEPTH = _size("playbook_depth", "playbooks", 100, "levels",
    "lists and mappings nested in a playbook",
    f"{_COMPILER} (`yaml-too-deep`)")
PLAYBOOK_VALUES = _size("playbook_values", "playbooks", 100_000, "entries",
    "keys and values in a playbook, an alias counted as often as it is used: this bounds arcs, tasks and rules",
    f"{_COMPILER} (`yaml-too-many-nodes`)")
PLAYBOOK_ALIASES = _size("playbook_aliases", "playbooks", 1000, "entries",
    "YAML aliases in a playbook",
    f"{_COMPILER} (`yaml-alias-limit`)")
STEPS = _size("steps", "playbooks", 1000, "entries",
    "steps of a playbook",
    f"{_COMPILER} (`too-many-steps`)")
TEMPLATES = _size("templates", "playbooks", 10_000, "entries",
    "texts with templates in a playbook",
    f"{_COMPILER} (`too-many-templates`)")
STEP_LIMITS = _size("step_limits", "playbooks", 8, "entries",
    "entries of `spec.limits` of a step",
    f"{_COMPILER} (`too-many-entries`)")
PATTERN = _size("pattern", "playbooks", 4096, "characters",
    "a pattern of a JSON Schema",
    f"{_COMPILER} (`input-schema`)")
SCHEMA_CHECKS = _size("schema_checks", "playbooks", 10_000, "operations",
    "keywords of a JSON Schema that apply to one value, with every `$ref`, `allOf`, `anyOf` and `oneOf` followed",
    f"{_COMPILER} (`input-schema`)")
SCHEMA_DEPTH = _size("schema_depth", "playbooks", 32, "levels",
    "lists and mappings nested in a JSON Schema: `input`, or the schema of a callback",
    "the compiler (`input-schema`, `kind-params`), tasks (`kind_params`) and the engine (`size_limit`)")
MODULES = _size("modules", "playbooks", 50, "entries",
    "files of `modules`",
    f"{_COMPILER} (`too-many-entries`)")
MODULES_BYTES = _size("modules_bytes", "playbooks", 512 * KIB, "bytes",
    "the text of all files of `modules` of a playbook",
    f"{_COMPILER} (`modules-too-large`)")
REQUIREMENTS = _size("requirements", "playbooks", 50, "entries",
    "entries of `executor.spec.requirements`",
    f"{_COMPILER} (`too-many-entries`)")
LOCK_BYTES = _size("lock_bytes", "playbooks", 512 * KIB, "bytes",
    "the lock of a playbook's requirements",
    f"{_COMPILER} (`lock-invalid`)")
LOCK_PINS = _size("lock_pins", "playbooks", 300, "entries",
    "packages that a lock pins",
    f"{_COMPILER} (`lock-invalid`)")
LIBRARIES_BYTES = _size("libraries_bytes", "playbooks", 2048 * MIB, "bytes",
    "the installed libraries of one lock, with what their installation needs meanwhile",
    "`python` tasks (`libraries_too_large`)")
LIBRARIES_SECONDS = _size("libraries_seconds", "playbooks", 900, "seconds",
    "the installation of the libraries of one lock",
    "`python` tasks (`libraries_not_installed`)")
LIBRARIES_KEPT = _size("libraries_kept", "playbooks", 8, "entries",
    "locks whose libraries a machine keeps installed, those in use apart",
    "the installation of others, which removes those that were used longest ago")
DIAGNOSTICS = _size("diagnostics", "playbooks", 100, "entries",
    "problems of a playbook that are listed",
    f"{_COMPILER}, which counts the rest")

# --- templates ---

TEMPLATE_SOURCE = _size("template_source", "templates", MIB, "characters",
    "a text with templates in it",
    "the compiler, and rendering (`template_limit`)")
TEMPLATE_CODE = _size("template_code", "templates", 20_000, "characters",
    "the code inside the braces of one text",
    "rendering (`template_limit`)")
TEMPLATE_TAGS = _size("template_tags", "templates", 2000, "entries",
    "expressions and block tags of one text",
    "rendering (`template_limit`)")
TEMPLATE_BRACKETS = _size("template_brackets", "templates", 30, "levels",
    "brackets open at one place of an expression",
    "the compiler, and rendering (`template_limit`)")
TEMPLATE_TREE = _size("template_tree", "templates", 100, "levels",
    "operators, filters and blocks nested in one template",
    "the compiler, and rendering (`template_limit`)")
TEMPLATE_BYTES = _size("template_bytes", "templates", 32 * MIB, "bytes",
    "a list or mapping that a template makes, as JSON (about)",
    "rendering (`template_limit`)")
TEMPLATE_DEPTH = _size("template_depth", "templates", 200, "levels",
    "lists and mappings nested in a value that a template makes",
    "rendering (`template_limit`)")
TEMPLATE_TEXT = _size("template_text", "templates", 8 * MIB, "characters",
    "a text that one operation of a template makes; an entry of a list or mapping counts as eight",
    "rendering (`template_limit`)")
TEMPLATE_TOTAL = _size("template_total", "templates", 32 * MIB, "characters",
    "everything that one template makes, altogether",
    "rendering (`template_limit`)")
TEMPLATE_RANGE = _size("template_range", "templates", 100_000, "entries",
    "numbers that `range()` counts",
    "rendering (`template_limit`)")
TEMPLATE_OPERATIONS = _size("template_operations", "templates", 2_000_000, "operations",
    "turns of loops, calls and filters in one template",
    "rendering (`template_limit`)")
TEMPLATE_INTEGER = _size("template_integer", "templates", 13_000, "bits",
    "a whole number that a template computes (about 3,900 digits)",
    "rendering (`template_limit`)")
TEMPLATE_WIDTH = _size("template_width", "templates", 100_000, "characters",
    "a width or precision in `format` and `%`",
    "rendering (`template_limit`)")

# --- executions ---

LOOP_ITEMS = _size("loop_items", "executions", 10_000_000, "entries",
    "items of a loop",
    "the engine (`size_limit`)")
WINDOW = _size("window", "executions", 1000, "entries",
    "items of a loop in flight: `max_in_flight` asks for fewer",
    "the engine, which issues no more")
NESTING = _size("nesting", "executions", 32, "levels",
    "sub-playbooks nested in each other",
    "the engine (`nesting_limit`)")
INLINE_MOVES = _size("inline_moves", "executions", 1000, "runs",
    "step runs without work in one go, before it is called an endless cycle; four times as many where steps have tools",
    "the engine (`endless_cycle`)")
NUMBER = _size("number", "executions", 2_147_483_647, "value",
    "seconds and counts that a playbook computes: timeouts, delays, `max_in_flight`, limits",
    "the engine (`template_type`)")
PRIORITY = _size("priority", "executions", 1000, "value",
    "a priority; the lowest is minus this",
    "the compiler, the engine (`template_type`) and the API (`body_invalid`)")
WAIT_SECONDS = _size("wait_seconds", "executions", 366 * 86_400, "seconds",
    "how long a `wait` waits",
    "tasks")
INLINE_BYTES = _size("inline_bytes", "executions", 32 * KIB, "bytes",
    "a value in history and messages: a larger one goes to the result store",
    "workers and the engine",
    "NOETL_INLINE_LIMIT")
INLINE_MOST = _size("inline_most", "executions", 128 * KIB, "bytes",
    "`spec.result.inline_max_bytes`: what it may ask for",
    "workers")
PREVIEW_BYTES = _size("preview_bytes", "executions", KIB, "bytes",
    "the preview in a reference",
    "workers; `spec.result.preview_max_bytes` asks for another size")
ERROR_MESSAGE = _size("error_message", "executions", 4000, "characters",
    "the message of an error: the rest is cut off",
    "workers, and the engine")
ERROR_DETAILS = _size("error_details", "executions", 8 * KIB, "bytes",
    "the details of an error: the rest is cut off",
    "workers, and the engine")
RESULT_BYTES = _size("result_bytes", "executions", 64 * MIB, "bytes",
    "the result of a task, as JSON",
    "workers (`result_too_large`)", "NOETL_OUTPUT_MAX_MB")
RESULT_VALUES = _size("result_values", "executions", 4_000_000, "entries",
    "lists and mappings, and commas between their entries, in a result of code, the answer to an HTTP call or of a Lambda function",
    "workers (`result_too_large`), before anything is made of it")
ARTIFACT_BYTES = _size("artifact_bytes", "executions", 16 * KIB * MIB, "bytes",
    "an artifact, or an answer that is streamed",
    "workers", "NOETL_ARTIFACT_MAX_MB")
LINES_BYTES = _size("lines_bytes", "executions", 16 * MIB, "bytes",
    "what the tasks of one command print: the rest is left out",
    "workers")
CALLBACK_MESSAGE = _size("callback_message", "executions", 1000, "characters",
    "the message of a callback: the rest is cut off",
    "tasks, and the engine")
CALLBACK_SCHEMA = _size("callback_schema", "executions", 16 * KIB, "bytes",
    "the schema of a callback",
    "the compiler (`kind-params`), tasks (`kind_params`) and the engine (`size_limit`)")
CREDENTIAL_BYTES = _size("credential_bytes", "executions", 64 * KIB, "bytes",
    "the data of a credential, as JSON",
    "the API and the command line (`invalid_credential`)")

# --- requests ---

BODY_BYTES = _size("body_bytes", "requests", 5 * MIB, "bytes",
    "the body of a request",
    "the API (413, `body_too_large`)")
BODY_VALUES = _size("body_values", "requests", 500_000, "entries",
    "lists and mappings, and commas between their entries, in the JSON of a request; what workers report has the limits of results",
    "the API (413, `body_too_large`), before anything is made of it")
BATCH_BYTES = _size("batch_bytes", "requests", 2 * MIB, "bytes",
    "the body of a batch of events",
    "the API (413, `body_too_large`)")
HEADER_BYTES = _size("header_bytes", "requests", 64 * KIB, "bytes",
    "the headers of a request, with its path",
    "`noetl serve` (431); API Gateway takes 10 KiB")
ANSWER_BYTES = _size("answer_bytes", "requests", 5_500_000, "bytes",
    "an answer, as Lambda counts it: larger results come as links",
    "the API (`answer_too_large`)")
BATCH_EVENTS = _size("batch_events", "requests", 256, "entries",
    "events of one batch",
    "the API (`batch_size`)")
BATCH_PLAYBOOKS = _size("batch_playbooks", "requests", 100, "entries",
    "playbooks of one request",
    "the API (`batch_size`)")
REQUEST_IDS = _size("request_ids", "requests", 100, "entries",
    "ids in one address",
    "the API (`invalid_parameter`)")
DEAD_LETTER_IDS = _size("dead_letter_ids", "requests", 100, "entries",
    "ids of dead letters in one request",
    "the API (`dead_letters_invalid`)")
CAPABILITY = _size("capability", "requests", 4 * KIB, "characters",
    "the header `Noetl-Command`",
    "the API (`capability_invalid`)")
CURSOR = _size("cursor", "requests", 16 * KIB, "characters",
    "a cursor",
    "the API (`invalid_cursor`)")
TOKEN_SECONDS = _size("token_seconds", "requests", 366 * 86_400, "seconds",
    "how long a token that the API makes is valid",
    "the API (`invalid_token`)")
LOG_LINE = _size("log_line", "requests", 64 * KIB, "characters",
    "a line that a worker sends",
    "the API (`body_invalid`)")
LOG_SEARCH = _size("log_search", "requests", 1000, "characters",
    "a text that is searched for in what tasks print",
    "the API (`invalid_parameter`) and `noetl logs` (`size_limit`)")
SQL_TEXT = _size("sql_text", "requests", 64 * KIB, "characters",
    "a query over history",
    "the API (`sql_refused`)")
SQL_ROWS = _size("sql_rows", "requests", 10_000, "entries",
    "rows of the answer to a query",
    "the API (`sql_refused`)")
SAVED_VIEWS = _size("saved_views", "requests", 100, "entries",
    "saved views of one page of the web UI",
    "the API (`saved_views_full`)")
SAVED_VIEW_BYTES = _size("saved_view_bytes", "requests", 32 * KIB, "bytes",
    "the search of a saved view of the web UI, as JSON",
    "the API (`invalid_saved_view`)")
WORKERS = _size("workers", "requests", 1000, "entries",
    "workers registered at once",
    "the API (`too_many_workers`)")
MESSAGE_BYTES = _size("message_bytes", "requests", 256 * KIB, "bytes",
    "a message in a queue: a larger one goes to the result store",
    "functions and workers",
    "NOETL_MESSAGE_LIMIT")
DIRECT_BYTES = _size("direct_bytes", "requests", 2 * MIB, "bytes",
    "outcomes of one request to the engine, and commands of its answer: more go through the queues",
    "workers and the engine of a deployment")
AHEAD_SECONDS = _size("ahead_seconds", "requests", 366 * 86_400, "seconds",
    "how far ahead `trigger_at` lies",
    "the API and the command line (`invalid_trigger_at`)")

# --- schedules and triggers ---

CATCH_UP = _size("catch_up", "schedules", 1000, "entries",
    "`catch_up_max`: missed moments that are caught up",
    "the compiler, the API and the command line (`invalid_schedule`)")
NEXT_MOMENTS = _size("next_moments", "schedules", 100, "entries",
    "moments in a preview of a schedule",
    "the API (`invalid_parameter`)")
TRIGGER_TEXT = _size("trigger_text", "schedules", 1024, "characters",
    "a text in the source of a trigger",
    "the API and the command line (`invalid_trigger`)")
TRIGGER_TEMPLATE = _size("trigger_template", "schedules", 4096, "characters",
    "the template `event_id` of a trigger",
    "the API and the command line (`invalid_trigger`)")

# fmt: on

SIZES: tuple[Size, ...] = tuple(_TABLE)
"""All limits, in the order of the page."""
