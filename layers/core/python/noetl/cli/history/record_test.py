"""Action of ``noetl test --from``: writes a test of an execution, and runs it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from noetl.cli import errors
from noetl.cli.actions.test import TestOptions, test
from noetl.cli.client.connect import open_place
from noetl.cli.client.protocol import resolve_id
from noetl.cli.options import CommandTarget
from noetl.cli.render.output import note
from noetl.domain.errors import ConflictError, InvalidInputError, NotFoundError
from noetl.kinds.registry import Registry
from noetl.services.catalog.register_playbook import is_playbook
from noetl.services.history.recorded_test import RecordedTest
from noetl.testing.run_cases import FileRun, Options
from noetl.testing.testfile import read_test_file


def record_test(options: TestOptions, name: str, at: CommandTarget) -> int:
    """Write the test file beside the playbook, and run it.

    The playbook's code runs in the test; where its outcome differs from the recorded one, recorded results take its
    place. Raises InvalidInputError, NotFoundError, ConflictError(code="file_exists").
    """
    playbook = _playbook(options)
    target = playbook.with_name(f"{playbook.name.removesuffix(playbook.suffix)}.test.yaml")
    if target.exists() or target.is_symlink():
        raise ConflictError(
            f"{errors.near(str(target))} exists",
            code="file_exists",
            hint="move it away, or make the test of a copy of the playbook and join both files",
        )
    with open_place(at) as place:
        execution = resolve_id(place, name)
        made = place.record_test(execution, code=True)
        _write(target, made)
        if not _passes(target):
            made = place.record_test(execution, code=False)
            _write(target, made)
            note(
                "the playbook's code had another outcome than in that execution: its recorded results are replies"
            )
    for one in made.notes:
        note(one)
    note(f"wrote {errors.near(str(target))}")
    return test(replace(options, targets=[str(target)]))


def _playbook(options: TestOptions) -> Path:
    if len(options.targets) != 1:
        raise InvalidInputError(
            "--from needs the file of the playbook",
            code="playbook_missing",
            hint="noetl test weather.yaml --from latest",
        )
    found = Path(options.targets[0])
    if not found.is_file() or not is_playbook(found):
        raise NotFoundError(f"{found} is no file with a playbook", code="file_not_found")
    return found


def _write(target: Path, made: RecordedTest) -> None:
    try:
        target.write_text(made.tests, encoding="utf-8")
    except OSError as error:
        raise InvalidInputError(
            f"{target} cannot be written: {error.strerror or error}", code="file_unwritable"
        ) from error


def _passes(target: Path) -> bool:
    file = read_test_file(target, Registry())
    run = FileRun(file, Options())
    return all(report.passed for report in run.run(file.cases))
