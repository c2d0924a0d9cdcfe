"""The whole document as a ``Program`` whose steps still lack reads and reachability."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from noetl.domain.sizes.table import PATH, PLAYBOOK_NAME
from noetl.domain.text.playbook_path import plain_path
from noetl.dsl.json_schema.check import schema_problem
from noetl.dsl.lowering.context import KEYCHAIN, START, TOOL, Frame, Lowering
from noetl.dsl.lowering.endings import lower_endings
from noetl.dsl.lowering.failures import with_default_on_error
from noetl.dsl.lowering.limits import lower_budget, lower_concurrency
from noetl.dsl.lowering.modules import lower_modules
from noetl.dsl.lowering.pipelines import lower_body, lower_sink
from noetl.dsl.lowering.requirements import lower_requirements
from noetl.dsl.lowering.starts import lower_schedule, lower_triggers
from noetl.dsl.lowering.steps import Defaults, lower_step
from noetl.dsl.lowering.tasks import Layers
from noetl.dsl.lowering.workbook import read_workbook
from noetl.dsl.program import PROGRAM_VERSION, KeychainEntry, Pos, Program, Step
from noetl.dsl.shape import place_of, show_path
from noetl.dsl.yaml_text.tree import Mapping, Scalar, Tree, items_of, mapping_of, text_of


def lower(lowering: Lowering, root: Mapping, *, source_name: str) -> Program:
    """Lower the document at ``root``, which has passed the shape checks, to a Program.

    Problems of meaning go to ``lowering.diagnostics``.
    """
    executor = mapping_of(mapping_of(root.get("executor")).get("spec"))
    metadata = mapping_of(root.get("metadata"))
    _read_names(lowering, root)
    _check_input(lowering, root.get("input"))
    read_workbook(lowering, root.get("workbook"))
    policy = executor.get("policy")
    tasks = mapping_of(executor.get("defaults"))
    defaults = Defaults(
        executor.get("result"),
        policy if isinstance(policy, Mapping) else None,
        tasks.get("retry"),
        tasks.get("timeout"),
    )
    start = Frame("", START)
    steps = with_default_on_error(lowering, root, _steps(lowering, root, defaults))
    endings, last = lower_endings(lowering, root, replace(defaults, policy=None), len(steps))
    _check_uncalled(lowering)
    name = _text(metadata.get("name"))
    _check_texts(lowering, metadata)
    lowering.check_entries(root.get("workload"), "workload")
    final = executor.get("final_step")
    return Program(
        v=PROGRAM_VERSION,
        semantics=lowering.semantics,
        hash="",
        name=name,
        path=_path(lowering, metadata) or name,
        version=_text(metadata.get("version")),
        description=_text(metadata.get("description")),
        labels={key.text: _text(value) for key, value in mapping_of(metadata.get("labels")).items()},
        schedule=lower_schedule(lowering, metadata.get("schedule"), _plain(root.get("input"))),
        triggers=lower_triggers(lowering, metadata.get("triggers")),
        source_name=source_name,
        workload=lowering.node(root.get("workload") or Mapping({}, Pos()), start),
        input_schema=_plain(root.get("input")),
        keychain=_keychain(lowering, root.get("keychain")),
        entry=_entry(executor, steps),
        final_step=text_of(final),
        no_next_is_error=_plain(executor.get("no_next_is_error")) is True,
        timeout=lowering.seconds(executor.get("timeout"), start),
        concurrency=lower_concurrency(lowering, executor.get("concurrency")),
        budget=lower_budget(lowering, executor.get("budget")),
        priority=lowering.optional(executor.get("priority"), start),
        steps=(*steps, *endings),
        last=last,
        last_steps=tuple(step.name for step in endings),
        modules=lower_modules(lowering, root.get("modules"), lowering.files),
        lock=lower_requirements(lowering, executor.get("requirements"), lowering.files),
    )


def _text(tree: Tree | None) -> str:
    return str(tree.value) if isinstance(tree, Scalar) else ""


def _plain(tree: Tree | None) -> Any:
    return None if tree is None else tree.plain()


def _check_input(lowering: Lowering, tree: Tree | None) -> None:
    schema = _plain(tree)
    problem = schema_problem(schema) if isinstance(schema, dict) else None
    if problem is not None and tree is not None:
        where = "/".join(str(part) for part in problem.path) or "input"
        lowering.diagnostics.error(
            "input-schema",
            f"`input` is not a JSON Schema that can be used: {where}: {problem.message}",
            place_of(tree, list(problem.path), at_key="patternProperties" in problem.path[-2:-1]),
            hint=problem.hint
            or "draft 2020-12 unless `$schema` says otherwise; `$ref` leads to a place of the same schema, such as #/$defs/city",
            path=show_path(["input", *problem.path]),
        )


def _read_names(lowering: Lowering, root: Mapping) -> None:
    """Names known before any step is read."""
    names = lowering.names
    names.workload |= set(mapping_of(root.get("workload")).entries)
    schema = mapping_of(root.get("input"))
    names.workload |= set(mapping_of(schema.get("properties")).entries)
    metadata = mapping_of(root.get("metadata"))
    names.workload |= set(mapping_of(mapping_of(metadata.get("schedule")).get("payload")).entries)
    names.workload |= {"schedule"} if metadata.has("schedule") else set()
    names.workload |= {"event"} if metadata.has("triggers") else set()
    names.keychain |= {text_of(mapping_of(item).get("name")) or "" for item in items_of(root.get("keychain"))}


def _steps(lowering: Lowering, root: Mapping, defaults: Defaults) -> tuple[Step, ...]:
    steps: list[Step] = []
    for item in items_of(root.get("workflow")):
        block = mapping_of(item)
        tree = block.get("step")
        name, pos = _text(tree), tree.pos if tree is not None else block.pos
        first = lowering.names.steps.get(name)
        if first is not None:
            lowering.diagnostics.error(
                "duplicate-step",
                f"step {name!r} is already defined on line {first.line}",
                pos,
                hint="rename one of them",
            )
            continue
        lowering.names.steps[name] = pos
        steps.append(lower_step(lowering, block, len(steps), defaults))
    return tuple(steps)


def _check_uncalled(lowering: Lowering) -> None:
    """Workbook tasks that no step calls are lowered once, for their problems."""
    for name in sorted(set(lowering.workbook) - lowering.workbook_used):
        entry = lowering.workbook[name]
        frame = Frame("", TOOL, open=True)
        lower_body(lowering, name, mapping_of(entry.get("tool")), frame, Layers())
        sink = entry.get("sink")
        if isinstance(sink, Mapping):
            lower_sink(lowering, sink, frame, label=f"{name}_sink")


def _path(lowering: Lowering, metadata: Mapping) -> str:
    """Return the path in the catalog, without a slash in front."""
    tree = metadata.get("path")
    text = _text(tree)
    if lowering.semantics < 3 or tree is None or not text:
        return text
    found = plain_path(text)
    if found is None and len(text) <= PATH.value:
        lowering.diagnostics.error(
            "bad-name",
            f"{text[:80]!r} cannot be the path of a playbook",
            tree.pos,
            hint="such as reports/daily: no @ or backslash; no part is empty, or begins with a dot, a dash or a space",
        )
    return found or text


def _check_texts(lowering: Lowering, metadata: Mapping) -> None:
    """Texts of `metadata` that become columns, which hold neither too much nor a NUL."""
    for name, size in (("name", PLAYBOOK_NAME), ("path", PATH)):
        tree = metadata.get(name)
        if tree is None:
            continue
        text = _text(tree)
        lowering.check_name(size, text, f"`{name}`", tree.pos)
        if "\0" in text or any("\ud800" <= char <= "\udfff" for char in text):
            lowering.diagnostics.error(
                "bad-name",
                f"`{name}` holds a NUL or half of a surrogate pair",
                tree.pos,
                hint="use plain text",
            )


def _keychain(lowering: Lowering, tree: Tree | None) -> tuple[KeychainEntry, ...]:
    entries: dict[str, KeychainEntry] = {}
    for item in items_of(tree):
        block = mapping_of(item)
        name = _text(block.get("name"))
        if name in entries:
            hint = "rename one of them"
            lowering.diagnostics.error(
                "duplicate-key", f"the keychain already has {name!r}", block.pos, hint=hint
            )
            continue
        params = lowering.node(block.without("name", "kind"), Frame("", KEYCHAIN))
        entries[name] = KeychainEntry(name, _text(block.get("kind")), params, block.pos)
    return tuple(entries.values())


def _entry(executor: Mapping, steps: tuple[Step, ...]) -> str:
    """Return ``executor.spec.entry_step``, else ``start``, else the first step."""
    entry = text_of(executor.get("entry_step"))
    if entry is not None:
        return entry
    if any(step.name == "start" for step in steps):
        return "start"
    return steps[0].name
