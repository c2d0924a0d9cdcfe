"""Reader of test files: it checks them with positions and finds their playbooks.

It lays defaults under every case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from noetl.domain.durations import seconds_of
from noetl.domain.errors import NotFoundError
from noetl.domain.patches.scope_patches import deep_merge
from noetl.dsl.compiler import compile_cached
from noetl.dsl.diagnostics import Diagnostics, InvalidPlaybookError, did_you_mean
from noetl.dsl.program import Pos, Program, Task
from noetl.dsl.shape import check_shape, place_of
from noetl.dsl.yaml_text.loader import load
from noetl.dsl.yaml_text.tree import Mapping as MappingTree
from noetl.kinds.registry import Registry
from noetl.services.catalog.files_beside import text_with_files
from noetl.services.catalog.register_playbook import is_playbook
from noetl.testing.document import TestDocument, check_form, epoch, is_choice

SUFFIXES = (".test.yaml", ".test.yml")
FOLDER = "tests"
START = 1_800_000_000.0
"""When a case begins unless it says so, in epoch seconds: 2027-01-15T08:00:00Z."""
_WHAT = ("a test file", "start with cases: and - name: …")
_KEY = re.compile(r"(?P<name>[^\[\]]+)(?:\[\d+\])?")
ENGINE_KINDS = frozenset({"noop", "playbook"})
_FORM_KINDS = {"http": {"http"}, "rows": {"postgres", "duckdb"}, "affected": {"postgres", "duckdb"}}


@dataclass(frozen=True)
class TestCase:
    """One case, defaults included.

    ``own``: the keys of ``tools`` that the case wrote itself; ``now``: epoch seconds at its start.
    """

    __test__ = False  # pytest

    name: str
    line: int
    payload: Mapping[str, Any]
    tools: Mapping[str, Any]
    own: frozenset[str]
    happenings: Sequence[Mapping[str, Any]]
    order: str
    now: float
    credentials: Mapping[str, Mapping[str, Any]]
    unused_tools: bool
    expect: Mapping[str, Any]


@dataclass(frozen=True)
class TestFile:
    """A test file that can be run. ``programs``: by catalog path, the tested one included."""

    __test__ = False  # pytest

    path: Path
    playbook: Path
    program: Program
    programs: Mapping[str, Program]
    cases: Sequence[TestCase] = field(default=())


class InvalidTestFileError(InvalidPlaybookError):
    """The test file cannot be run; ``diagnostics`` say why."""


def is_test_file(path: Path) -> bool:
    return path.name.endswith(SUFFIXES)


def read_test_file(path: Path, kinds: Registry, *, among: Collection[str] | None = None) -> TestFile:
    """Read a test file, with its playbooks.

    ``among``: the only names that it may use for files; None: every path of this machine.

    Raises InvalidTestFileError, InvalidPlaybookError (of the playbook), NotFoundError."""
    name = str(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        raise NotFoundError(
            f"{path} cannot be read: {error.strerror or error}", code="file_not_found"
        ) from None
    diagnostics = Diagnostics()
    root = load(text, diagnostics, _WHAT)
    if root is not None:
        check_shape(root, diagnostics, TestDocument)
    _stop(diagnostics, name)
    assert root is not None
    document: dict[str, Any] = root.plain()
    if among is not None:
        _check_named(document, root, among, diagnostics)
        _stop(diagnostics, name)
    playbook = _playbook_of(path, document, root, diagnostics)
    _stop(diagnostics, name)
    program = _compile(playbook, kinds)
    programs = dict(_others(path, playbook, document, root, diagnostics, kinds))
    programs[program.path or program.name] = program
    known = names_of(program, programs)
    cases = [_case(document, number, root) for number in range(len(document["cases"]))]
    _check(document, root, cases, known, {step.name for step in program.steps}, diagnostics)
    _stop(diagnostics, name)
    cases = [canonical(case, known, kinds) for case in cases]
    return TestFile(path, playbook, program, programs, cases)


def _stop(diagnostics: Diagnostics, name: str) -> None:
    if diagnostics.has_errors():
        raise InvalidTestFileError(diagnostics.sorted(), source_name=name)


# --- playbooks ----------------------------------------------------------------------------------


def _check_named(
    document: Mapping[str, Any], root: MappingTree, among: Collection[str], diagnostics: Diagnostics
) -> None:
    """Find names of files that were not sent with the test file."""
    named: list[tuple[list[str | int], Any]] = [
        (["playbooks", number], one) for number, one in enumerate(document.get("playbooks") or ())
    ]
    if document.get("playbook") is not None:
        named.insert(0, (["playbook"], document["playbook"]))
    for place, file in named:
        if file not in among:
            pos = place_of(root, place, at_key=False)
            hint = f"there are: {', '.join(sorted(among))}"
            message = f"`{file}` is not among the files of this request"
            diagnostics.error("no-playbook", message, pos, hint=hint)


def _playbook_of(
    path: Path, document: Mapping[str, Any], root: MappingTree, diagnostics: Diagnostics
) -> Path:
    """Return the file that ``playbook`` names, or the playbook of the same name.

    That one is beside the test file, or beside its folder ``tests``.
    """
    named = document.get("playbook")
    if named is not None:
        found = path.parent / str(named)
        if not is_playbook(found):
            pos = place_of(root, ["playbook"], at_key=False)
            diagnostics.error(
                "no-playbook", f"there is no playbook {found}", pos, hint="the path is relative to this file"
            )
        return found
    stem = re.sub(r"\.test\.ya?ml\Z|\.ya?ml\Z", "", path.name)
    folders = [path.parent, *([path.parent.parent] if path.parent.name == FOLDER else [])]
    places = [folder / f"{stem}{suffix}" for folder in folders for suffix in (".yaml", ".yml")]
    for place in places:
        if place != path and is_playbook(place):
            return place
    diagnostics.error(
        "no-playbook",
        f"there is no playbook {stem}.yaml for these tests",
        Pos(1, 1),
        hint="name it: playbook: ../some/where.yaml",
    )
    return places[0]


def _compile(path: Path, kinds: Registry) -> Program:
    """Compile a playbook once per text and process.

    One of an older dialect is compiled each time. Raises InvalidPlaybookError.
    """
    source = str(path.resolve())
    text: str | bytes = path.read_bytes()
    with suppress(UnicodeDecodeError):  # the compiler names the byte
        text = text_with_files(path.read_bytes().decode(), path)
    try:
        return compile_cached(text, source_name=source, kinds=kinds).program
    except InvalidPlaybookError as refused:
        from noetl.migration.older import compile_any

        return compile_any(text, source_name=source, kinds=kinds, refused=refused)[0].program


def _others(
    path: Path,
    playbook: Path,
    document: Mapping[str, Any],
    root: MappingTree,
    diagnostics: Diagnostics,
    kinds: Registry,
) -> Iterator[tuple[str, Program]]:
    """Return the playbooks that the tested one may call.

    They are those in its folder (as far as they are valid), and those that the file names.
    """
    for file in sorted(playbook.parent.iterdir()):
        if (
            file.suffix in (".yaml", ".yml")
            and file != playbook
            and not is_test_file(file)
            and is_playbook(file)
        ):
            try:
                program = _compile(file, kinds)
            except InvalidPlaybookError:
                continue
            yield program.path or program.name, program
    for number, name in enumerate(document.get("playbooks", ())):
        file = path.parent / name
        if is_playbook(file):
            program = _compile(file, kinds)
            yield program.path or program.name, program
        else:
            pos = place_of(root, ["playbooks", number], at_key=False)
            diagnostics.error(
                "no-playbook", f"there is no playbook {file}", pos, hint="the path is relative to this file"
            )


# --- cases --------------------------------------------------------------------------------------


def _case(document: Mapping[str, Any], number: int, root: MappingTree) -> TestCase:
    spec = document["cases"][number]
    defaults = document.get("defaults") or {}

    def of(key: str, otherwise: Any) -> Any:
        return spec.get(key, defaults.get(key, otherwise))

    own = spec.get("tools") or {}
    return TestCase(
        name=spec["name"],
        line=place_of(root, ["cases", number], at_key=False).line,
        payload=deep_merge(defaults.get("payload") or {}, spec.get("payload") or {}),
        tools={key: _delayed(one) for key, one in {**(defaults.get("tools") or {}), **own}.items()},
        own=frozenset(own),
        happenings=[_timed(one, "at") for one in of("happenings", ())],
        order=of("order", "forward"),
        now=epoch(of("now", START)),
        credentials={**(defaults.get("credentials") or {}), **(spec.get("credentials") or {})},
        unused_tools=of("unused_tools", False),
        expect=_timed({**(defaults.get("expect") or {}), **(spec.get("expect") or {})}, "elapsed"),
    )


def _timed(block: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return a block whose duration under ``key`` is in seconds."""
    return {name: seconds_of(value) if name == key else value for name, value in block.items()}


def _delayed(reply: Any) -> Any:
    """Return an entry of ``tools`` with its delays in seconds."""
    if isinstance(reply, list):
        return [_delayed(one) for one in reply]
    inner = {key: _delayed(reply[key]) for key in ("default", "replies") if key in reply}
    return {**_timed(reply, "delay"), **inner}


# --- what only playbook and test file together can tell -------------------------------------------


def prefixed(main: Program, programs: Mapping[str, Program]) -> Iterator[tuple[str, Program]]:
    """Yield programs with the prefix of the names of their steps.

    The main program has none; a called one has ``<name of the playbook>:``.
    """
    for program in programs.values():
        yield ("" if program.hash == main.hash else f"{program.name}:"), program


def names_of(main: Program, programs: Mapping[str, Program]) -> dict[str, set[str]]:
    """Return the names that replies and calls may use, with the kinds behind each name.

    They are steps, tasks, ``step/task`` and ``sink``.
    """
    known: dict[str, set[str]] = {}
    for prefix, program in prefixed(main, programs):
        for step in program.steps:
            known.setdefault(f"{prefix}{step.name}", set())
            for task in structs(step, Task):
                for name in (step.name, task.label, f"{step.name}/{task.label}"):
                    known.setdefault(f"{prefix}{name}", set()).add(task.kind)
                if task.label.endswith("_sink"):
                    known.setdefault("sink", set()).add(task.kind)
    return known


def structs(value: Any, wanted: type[Any] | tuple[type[Any], ...]) -> Iterator[Any]:
    """Every part of a program that is of a wanted type, in the order in which it is written."""
    queue = [value]
    while queue:
        part = queue.pop()
        if isinstance(part, wanted):
            yield part
        if isinstance(part, msgspec.Struct):
            queue += [getattr(part, name) for name in reversed(part.__struct_fields__)]
        elif isinstance(part, (tuple, list)):
            queue += reversed(part)


def _check(
    document: Mapping[str, Any],
    root: MappingTree,
    cases: Sequence[TestCase],
    known: Mapping[str, set[str]],
    steps: set[str],
    diagnostics: Diagnostics,
) -> None:
    check = _Names(root, diagnostics, known, steps)
    if "defaults" in document:
        check.block(document["defaults"] or {}, ["defaults"])
    seen: dict[str, int] = {}
    for number, case in enumerate(cases):
        check.block(document["cases"][number], ["cases", number])
        check.counted(case, ["cases", number, "expect", "calls"])
        if case.name in seen:
            pos = place_of(root, ["cases", number, "name"], at_key=False)
            first = seen[case.name]
            diagnostics.error(
                "duplicate-case", f"the name {case.name!r} is that of the case in line {first}", pos
            )
        seen.setdefault(case.name, case.line)


@dataclass
class _Names:
    root: MappingTree
    diagnostics: Diagnostics
    known: Mapping[str, set[str]]
    steps: set[str]

    def block(self, spec: Mapping[str, Any], path: list[Any]) -> None:
        for key, reply in (spec.get("tools") or {}).items():
            if self.name(key, self.known, "step or task", [*path, "tools", key]):
                self.forms(key, reply, [*path, "tools", key])
        for number, happening in enumerate(spec.get("happenings") or ()):
            for what in ("token", "callback"):
                if what in happening:
                    place = [*path, "happenings", number, what, "step"]
                    self.name(happening[what]["step"], self.steps, "step", place, at_key=False)
        self.expectation(spec.get("expect") or {}, [*path, "expect"])

    def expectation(self, expect: Mapping[str, Any], path: list[Any]) -> None:
        for number, entry in enumerate(expect.get("path") or ()):
            for name in entry if isinstance(entry, list) else [entry]:
                self.name(name, self.steps, "step", [*path, "path", number], at_key=False)
        for number, name in enumerate(expect.get("never") or ()):
            self.name(name, self.steps, "step", [*path, "never", number], at_key=False)
        for name in expect.get("runs") or ():
            self.name(name, self.steps, "step", [*path, "runs", name])
        for name in expect.get("calls") or ():
            self.name(name, self.known, "step or task", [*path, "calls", name])

    def counted(self, case: TestCase, path: list[Any]) -> None:
        """Calls are counted where tools are called; what the engine runs itself is not."""
        for key in case.expect.get("calls") or ():
            kinds = self.known.get(key)
            if kinds is not None and kinds <= ENGINE_KINDS and key not in case.tools:
                pos = place_of(self.root, [*path, key], at_key=True)
                what = " and ".join(sorted(kinds)) or "a step without a tool"
                message = f"`{key}` is {what}, which the engine runs itself: it makes no call"
                self.diagnostics.error(
                    "no-call", message, pos, hint="count its steps with `runs`, or reply in its place"
                )

    def name(self, key: str, known: Any, what: str, path: list[Any], *, at_key: bool = True) -> bool:
        found = _KEY.fullmatch(key)
        if found is not None and found["name"] in known:
            return True
        pos = place_of(self.root, path, at_key=at_key)
        shown = sorted(name for name in known if "/" not in name and not name.endswith("_task"))
        hint = did_you_mean(key, known, f"there are: {', '.join(shown)}")
        self.diagnostics.error("unknown-step", f"`{key}` is no {what} of the playbook", pos, hint=hint)
        return False

    def forms(self, key: str, reply: Any, path: list[Any]) -> None:
        """Find replies in the form of a kind that is not the step's, and mixed lists.

        A mixed list is half of one sort.
        """
        for number, one in enumerate(reply if isinstance(reply, list) else ()):
            if is_choice(reply) and not one.keys() & {"when", "default"}:
                pos = place_of(self.root, [*path, number], at_key=False)
                hint = "give it a `when`, or write - default: {…}"
                self.diagnostics.error(
                    "reply-form", "the other entries choose by `when`, this one does not", pos, hint=hint
                )
        kinds = self.known[_KEY.fullmatch(key)["name"]]  # type: ignore[index]
        for part in _single_replies(reply):
            wanted = _FORM_KINDS.get(check_form(part))
            if wanted is not None and kinds and not kinds & wanted:
                pos = place_of(self.root, path, at_key=True)
                words = " or ".join(sorted(wanted))
                message = f"`{key}` is {' and '.join(sorted(kinds))}, and this reply is one of {words}"
                self.diagnostics.error("reply-form", message, pos, hint="write result: … or error: …")


def _single_replies(reply: Any) -> Iterator[Mapping[str, Any]]:
    """The replies inside an entry of ``tools``, without what chooses among them."""
    for one in reply if isinstance(reply, list) else [reply]:
        if "default" in one:
            yield one["default"]
        elif "replies" in one:
            yield from one["replies"]
        else:
            yield one


def canonical(case: TestCase, known: Mapping[str, set[str]], kinds: Registry) -> TestCase:
    """Return ``case`` with parameters by the names that calls have them under.

    ``json`` is ``body``, as the compiler reads it.
    """

    def renamed(key: str, params: Mapping[str, Any]) -> dict[str, Any]:
        found = _KEY.fullmatch(key)
        aliases: dict[str, str] = {}
        for kind in known.get(found["name"], ()) if found is not None else ():
            aliases |= kinds.spec(kind).aliases
        return {aliases.get(name, name): value for name, value in params.items()}

    def reply(key: str, one: Any) -> Any:
        return {**one, "when": renamed(key, one["when"])} if "when" in one else one

    tools = {
        key: [reply(key, one) for one in value] if isinstance(value, list) else value
        for key, value in case.tools.items()
    }
    calls = {
        key: [renamed(key, one) for one in value] if isinstance(value, list) else value
        for key, value in (case.expect.get("calls") or {}).items()
    }
    return replace(case, tools=tools, expect={**case.expect, "calls": calls})
