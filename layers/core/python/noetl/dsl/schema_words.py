"""What editors show beside a key: a sentence for each, and the value that stands for a key left out."""

from __future__ import annotations

from typing import Any

WORDS: dict[str, str] = {
    "accumulate": "Gathers what the task gives over its repeated runs within one step run; the gathered value is its result.",
    "admit": "Whether and when the step may begin: rules from the top, the first match decides.",
    "after": "Reserved: an empty list.",
    "allow": "true lets it begin, false parks it until the context changes, skip leaves it out.",
    "apiVersion": "noetl.io/v2.",
    "arcs": "Ways out of the step, in the order they are looked at.",
    "args": "Values by name, rendered; templates read them as args.<name>.",
    "as": "A second name for the result.",
    "attempts": "How often the call is made in total, the first try included.",
    "backoff": "How the delay grows from try to try.",
    "backoff_multiplier": "What the delay is multiplied with from try to try.",
    "batch": "Messages taken at once, at most 10.",
    "before": "Reserved: an empty list.",
    "bucket": "The bucket's name. It has to report to EventBridge.",
    "bus": "The event bus, by name or ARN.",
    "call": "Runs the tool again with these parameters over the last ones; with `step`, goes to that step.",
    "cancels": "Steps whose live runs are withdrawn when this one begins; all for every other.",
    "case": "Entries that answer events of the step; for each event the first that matches wins.",
    "catch_up": "What is done about moments that were missed: the newest is made up for, all are, or none.",
    "catch_up_max": "Most missed moments that are made up for.",
    "collect": "Gathers a value in ctx, over calls and iterations.",
    "compensate": "Undoes a run of this step that succeeded, when the execution fails later.",
    "compression": "How a result is packed where it is stored.",
    "connect": "Seconds until the connection stands.",
    "cron": "Five fields: minute, hour, day of month, month, day of week.",
    "deadline_s": "Seconds from the start of the execution by which this has to be over.",
    "delay": "Seconds before the next try.",
    "desc": "What it is for.",
    "description": "What the playbook is for.",
    "do": "What happens: go on, try again, jump to a task, end the list, or fail.",
    "else": "The last rule: what happens when none before it matched.",
    "enabled": "Whether the schedule fires.",
    "entry_step": "The step the execution begins with; else the one called start.",
    "events": "What has to happen to an object.",
    "exec": "Where iterations run.",
    "executor": "Defaults for all steps, and where the execution begins and ends.",
    "fail": "Fails the step, with a message.",
    "failure": "What one failed iteration does to the others.",
    "final_step": "A step that runs once when everything else is done; its result is the execution's.",
    "finally": "Reserved: an empty list.",
    "from": "The value: a template, or a path such as response.items.",
    "in": "The list to go over: a template, or a YAML list.",
    "initial_delay": "Seconds before the second try.",
    "inline_max_bytes": "Largest result, in bytes of JSON, that travels itself; larger ones are stored and referred to.",
    "input": "Values by name, rendered; templates read them as input.<name>.",
    "into": "The ctx key to gather in.",
    "iterator": "The name one element has in each iteration.",
    "jitter": "The part of the delay that is left to chance: true for half of it, or 0 to 1.",
    "join": "What several incoming arcs mean: by default the step runs once, when nothing else can still arrive.",
    "keychain": "Credentials, by the names templates read them with: keychain.<name>.",
    "kind": "The kind of tool.",
    "labels": "Text by name, for lists and filters.",
    "lifecycle": "Limits of time.",
    "loop": "Runs the tool once for each element of a list.",
    "max_attempts": "How often the call is made in total, the first try included.",
    "max_delay": "Most seconds between two tries.",
    "max_in_flight": "Most iterations under way at once.",
    "merge_path": "Where the gathered value is put into the last result.",
    "message": "What the error says.",
    "metadata": "The playbook's name and where it is kept.",
    "mode": "Which of several ways.",
    "multiplier": "What the delay is multiplied with from try to try.",
    "mutex": "The name of a lock: steps that hold the same one do not overlap.",
    "name": "Its name.",
    "next": "Where to go when the step is done.",
    "no_next_is_error": "Fails the execution when a step has arcs and none of them matched.",
    "of": "What a number counts: different arcs, or tokens over whatever arc.",
    "on_error": "What an unanswered failure does: fail, continue, or the step to go to.",
    "on_no_match": "What happens when no arc matched.",
    "on_unmatched": "What an error does that no rule matches.",
    "output": "How the result is kept: what is picked from it, and where it is stored.",
    "overlap": "What a firing does while the execution that the schedule started before still runs.",
    "path": "Where it is found.",
    "pattern": "Which events start the playbook, as EventBridge patterns say it.",
    "payload": "Values by name that the workload is overlaid with.",
    "policy": "Rules and limits.",
    "prefix": "What keys have to begin with.",
    "preview_max_bytes": "Bytes of a stored result that its reference shows.",
    "profile": "Which executor the playbook was written for; not read.",
    "queue": "The queue, by name or ARN.",
    "rate": "Every so often: 5 minutes, 1 hour, 2 days.",
    "read": "Seconds without a byte.",
    "rest": "What becomes of the others of a wave: they end here, wait for the next firing, or are withdrawn.",
    "result": "The value, or how it is kept.",
    "retry": "Runs the same call again.",
    "retry_when": "Guard: only then is the call tried again.",
    "rules": "Read from the top; the first that matches decides.",
    "schedule": "When the playbook starts by itself.",
    "scope": "How long a stored result is kept.",
    "select": "Parts of the result that are promoted under a name of their own.",
    "set": "Writes values: ctx.<name>, iter.<name> or step.<name>.",
    "set_ctx": "Writes values of the context by name.",
    "set_iter": "Writes values of the iteration by name.",
    "sink": "Writes what came of the call somewhere, once per call.",
    "skip": "Ends the step as skipped, with a message.",
    "spec": "Settings.",
    "step": "The step's name.",
    "stop_when": "Guard: the call is repeated until it is true.",
    "store": "Where a large result is kept.",
    "strategy": "How values are gathered.",
    "suffix": "What keys have to end with.",
    "table": "The table `args` are inserted into.",
    "task": "The task to run.",
    "then": "What happens when the guard is true.",
    "timeout": "Seconds it may take.",
    "timeout_s": "Seconds it may take.",
    "timezone": "The zone of the schedule's hours, such as Europe/Oslo.",
    "to": "The label of the task to go on with; previous for the one before.",
    "tool": "What the step runs: one task, or a list of labelled tasks.",
    "triggers": "What else starts the playbook.",
    "ttl": "How long a stored result is kept at least, such as 12h.",
    "type": "The kind of trigger.",
    "vars": "Values kept after success, from the top, each seeing those before it.",
    "version": "The version.",
    "wait": "How many have to arrive: any, all, or a number.",
    "when": "Guard: a template that is true or false.",
    "with": "Values by name, rendered; templates read them as args.<name>.",
    "workbook": "Tasks by name that steps run with kind: workbook.",
    "workflow": "The steps.",
    "workload": "Default values of the payload, read as workload.<name>; they never change.",
}
"""By key, wherever it stands."""

BETTER: dict[str, str] = {
    "ArcBlock.args": "What the token carries: the next step reads it as args.<name>.",
    "ArcBlock.step": "The step to go to.",
    "ArcBlock.when": "Guard over outcome, ctx and event.name; left out: always.",
    "Document.input": "JSON Schema of the payload, checked before the execution starts.",
    "Document.kind": "Playbook.",
    "Failure.mode": "fail_fast: the first failed iteration ends the loop; best_effort: the others go on.",
    "GoTo.args": "What the token carries: the next step reads it as args.<name>.",
    "GoTo.step": "The step to go to.",
    "LoopBlock.mode": "One iteration after the other, or several at once.",
    "LoopSpec.mode": "One iteration after the other, or several at once.",
    "Metadata.path": "Where the catalog keeps it, and how others call it; else its name.",
    "NamedTask.name": "The task's label, for jumps and for its result.",
    "NextSpec.mode": "exclusive: the first arc that matches; inclusive: every arc that matches.",
    "Selection.as": "The name it is promoted under.",
    "Selection.path": "The place inside the result, such as $.page.next.",
    "StepBlock.next": "Where to go when the step is done: arcs, or plain names.",
    "TaskSpec.timeout": "Seconds one call may take.",
    "StepSpec.timeout": "Seconds from the step's beginning to its end.",
}
"""By model and key, where the general sentence says too little."""

DEFAULTS: dict[str, Any] = {
    "RetryBlock.backoff_multiplier": 2,
    "RetryBlock.initial_delay": 1,
    "RetryBlock.max_attempts": 3,
    "RuleThen.attempts": 3,
    "RuleThen.backoff": "none",
    "RuleThen.delay": 1,
    "StepRetryBlock.backoff_multiplier": 2,
    "StepRetryBlock.initial_delay": 1,
    "StepRetryBlock.max_attempts": 3,
}
"""What the compiler takes for a key that is left out, where the model does not say."""


def describe(schema: dict[str, Any]) -> None:
    """Give every key of a playbook's schema its sentence and its default, in place."""
    _describe("Document", schema)
    for name, definition in schema["$defs"].items():
        _describe(name, definition)


def _describe(model: str, definition: dict[str, Any]) -> None:
    for key, about in definition.get("properties", {}).items():
        if not isinstance(about, dict):
            continue
        if about.get("default", "") is None:
            del about["default"]
        place = f"{model}.{key}"
        if place in DEFAULTS:
            about.setdefault("default", DEFAULTS[place])
        words = BETTER.get(place) or about.get("description") or WORDS.get(key)
        if words:
            about["description"] = words
