"""Action of ``noetl test``: run test files, report each case.

It reports differences and uncovered branches, too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noetl.cli import errors
from noetl.cli.render.output import note, one_line, out, out_json, printable
from noetl.domain.errors import InvalidInputError, NoetlError
from noetl.kinds.registry import Registry
from noetl.testing.assertions import Finding, path_text
from noetl.testing.coverage import Coverage
from noetl.testing.discover import find_test_files
from noetl.testing.junit import finding_lines, junit
from noetl.testing.mocks import shown_calls
from noetl.testing.run_cases import CaseReport, FileRun, Options
from noetl.testing.testfile import TestCase, read_test_file

WIDTH = 160


@dataclass(frozen=True)
class TestOptions:
    """What the command line asked for."""

    targets: Sequence[str]
    name: str = ""
    as_json: bool = False
    junit: str | None = None
    coverage: bool = False
    coverage_min: float | None = None
    fail_fast: bool = False
    verbose: bool = False
    shuffle: int = 0
    seed: int = 1
    live: Sequence[str] = ()


@dataclass
class Tally:
    """The outcome of all test files. ``files``: name, cases, why it could not be run."""

    files: list[tuple[str, list[CaseReport], str]] = field(default_factory=list)
    coverages: dict[str, Coverage] = field(default_factory=dict)

    @property
    def cases(self) -> list[CaseReport]:
        return [case for _, cases, _ in self.files for case in cases]

    @property
    def failed(self) -> int:
        return sum(not case.passed for case in self.cases)

    @property
    def broken(self) -> int:
        return sum(bool(error) for _, _, error in self.files)


def test(chosen: TestOptions) -> int:
    """Return the exit code.

    0: all cases passed; 1: one did not, or coverage is too low; 2: a file cannot be run, or there is nothing to run.
    """
    began = time.perf_counter()
    kinds = Registry()
    unknown = sorted(set(chosen.live) - set(kinds.names()))
    if unknown:
        raise InvalidInputError(
            f"there is no tool kind {unknown[0]!r}",
            code="unknown_kind",
            hint=f"--live takes one of {', '.join(kinds.names())}",
        )
    options = Options(frozenset(chosen.live), chosen.shuffle, chosen.seed, _credentials(chosen.live))
    tally = Tally()
    for path in find_test_files(chosen.targets or ["."]):
        _file(path, kinds, options, chosen, tally)
        if chosen.fail_fast and (tally.failed or tally.broken):
            break
    if chosen.junit is not None:
        _write(chosen.junit, junit(tally.files))
    low = _coverage(tally, chosen)
    _summary(tally, chosen, time.perf_counter() - began)
    if tally.broken:
        return errors.USAGE
    if not tally.cases:
        note(f"no case has {chosen.name!r} in its name")
        return errors.USAGE
    return errors.FAILED if tally.failed or low else errors.DONE


def _credentials(live: Sequence[str]) -> Any:
    """What live calls sign in with: the credentials of a local run."""
    if not live:
        return None
    from noetl.adapters.embedded.credentials import FileCredentials

    named = os.environ.get("NOETL_CREDENTIALS")
    return FileCredentials(Path(named).expanduser() if named else None)


def _file(path: Path, kinds: Registry, options: Options, chosen: TestOptions, tally: Tally) -> None:
    name = errors.near(str(path))
    try:
        file = read_test_file(path, kinds)
    except NoetlError as error:
        text = errors.describe(error)
        tally.files.append((name, [], text))
        if chosen.as_json:
            out_json({"file": name, "invalid": True, "error": errors.as_json(error)})
        else:
            out(f"{name}\n{text}\n")
        return
    wanted = [case for case in file.cases if chosen.name.lower() in case.name.lower()]
    if not wanted:
        return
    run = FileRun(file, options)
    known = tally.coverages.setdefault(str(file.playbook), run.coverage)
    reports: list[CaseReport] = []
    tally.files.append((name, reports, ""))
    if not chosen.as_json:
        out(name)
    for case in wanted:
        report = run.case(case)
        reports.append(report)
        _print(name, case, report, chosen)
        if chosen.fail_fast and not report.passed:
            break
    known.taken |= run.coverage.taken
    if not chosen.as_json:
        out()


def _print(name: str, case: TestCase, report: CaseReport, options: TestOptions) -> None:
    if options.as_json:
        out_json(_as_dict(name, report))
        return
    mark = "ok  " if report.passed else "FAIL"
    orders = f", {report.orders} orders" if report.orders and report.passed else ""
    out(f"  {mark}  {one_line(report.name, 100)}  ({report.seconds * 1000:.0f} ms{orders})")
    if not report.passed or options.verbose:
        for line in _details(name, case, report):
            out(f"        {printable(line, WIDTH)}".rstrip())


def _details(name: str, case: TestCase, report: CaseReport) -> list[str]:
    lines = [line for finding in report.findings for line in finding_lines(finding)]
    if report.path or report.calls:
        lines += ["path   " + path_text(report.path), "calls  " + (_calls_text(report) or "none")]
    if report.seed is not None:
        again = f'noetl test {name} -k "{case.name}" --shuffle 1 --seed {report.seed}'
        lines += [
            "",
            f"the outcome depends on the order in which tasks end (seed {report.seed}); see it again:",
            f"  {again}",
        ]
    if report.findings:
        lines.append(f"at {name}:{report.line}")
    return lines


def _calls_text(report: CaseReport) -> str:
    return ", ".join(f"{name} ×{count}" for name, count in shown_calls(report.calls).items())


def _as_dict(name: str, report: CaseReport) -> dict[str, Any]:
    return {
        "file": name,
        "line": report.line,
        "case": report.name,
        "passed": report.passed,
        "duration_ms": round(report.seconds * 1000, 1),
        "status": report.status,
        "path": list(report.path),
        "calls": shown_calls(report.calls),
        "orders": report.orders,
        "seed": report.seed,
        "findings": [_finding(finding) for finding in report.findings],
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {name: getattr(finding, name) for name in ("where", "expected", "got", "message")}


def _coverage(tally: Tally, options: TestOptions) -> bool:
    """Print the coverage; return True when a playbook is below the required percentage."""
    low = False
    measured = options.coverage or options.coverage_min is not None
    for playbook, coverage in tally.coverages.items() if measured else ():
        below = options.coverage_min is not None and coverage.percent < options.coverage_min
        low = low or below
        name = errors.near(playbook)
        if options.as_json:
            out_json(_coverage_dict(name, coverage))
            continue
        count = f"{len(coverage.taken)} of {len(coverage.branches)} branches"
        wanted = f", wanted {options.coverage_min:g} %" if below else ""
        out(f"coverage  {name}  {coverage.percent:.1f} % ({count}{wanted})")
        for branch in coverage.missed:
            out(f"  {name}:{branch.line}:{branch.column}: no case reaches {branch.what}")
    return low


def _coverage_dict(name: str, coverage: Coverage) -> dict[str, Any]:
    missed = [
        {"line": one.line, "column": one.column, "kind": one.kind, "what": one.what}
        for one in coverage.missed
    ]
    return {
        "playbook": name,
        "percent": round(coverage.percent, 1),
        "branches": len(coverage.branches),
        "missed": missed,
    }


def _summary(tally: Tally, options: TestOptions, seconds: float) -> None:
    cases = len(tally.cases)
    if options.as_json:
        out_json(
            {
                "cases": cases,
                "failed": tally.failed,
                "invalid_files": tally.broken,
                "seed": options.seed if options.shuffle else None,
                "duration_ms": round(seconds * 1000),
            }
        )
        return
    parts = [f"{cases - tally.failed} passed"]
    parts += [f"{tally.failed} failed"] if tally.failed else []
    files = "1 file" if tally.broken == 1 else f"{tally.broken} files"
    parts += [f"{files} cannot be run"] if tally.broken else []
    orders = f", seeds {options.seed} to {options.seed + options.shuffle - 1}" if options.shuffle else ""
    out(f"{cases} {'case' if cases == 1 else 'cases'}: {', '.join(parts)} in {seconds:.2f} s{orders}")


def _write(path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except OSError as error:
        raise InvalidInputError(
            f"{path} cannot be written: {error.strerror or error}", code="file_unwritable"
        ) from error
