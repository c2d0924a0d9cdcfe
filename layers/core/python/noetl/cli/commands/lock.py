"""``noetl lock``: pin the libraries that a playbook requires, beside the playbook."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from noetl.cli import errors
from noetl.cli.commands.playbooks import playbook_files, playbook_text
from noetl.cli.commands.rewriting.fmt import write_whole
from noetl.cli.render.output import note, out, out_json
from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.domain.sizes.table import LIBRARIES_SECONDS, LOCK_PINS, REQUIREMENTS
from noetl.domain.text.lock_text import (
    LockError,
    Pin,
    Requirement,
    canonical_name,
    lock_text,
    merged,
    read_lock,
    read_requirement,
)
from noetl.kinds.sandbox.libraries import pip_environment, reason_of
from noetl.services.catalog.files_beside import lock_beside

_PIP = (
    *("-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--only-binary", ":all:"),
    *("--no-input", "--disable-pip-version-check", "--no-cache-dir"),
)


def lock(targets: Sequence[str], platforms: Sequence[str], wheels: str, *, as_json: bool) -> int:
    """Write the locks of playbooks (folders: every playbook below that requires libraries).

    Raises NotFoundError, InvalidInputError with the place of a requirement, InfrastructureError when pip resolves nothing.
    """
    locked = 0
    for playbook in playbook_files(targets):
        required = required_by(playbook)
        if not required:
            continue
        locked += 1
        place = _place(playbook)
        note(f"{playbook}: resolving {len(required)} requirements")
        pins = resolve(required, platforms, wheels)
        text = lock_text(required, pins)
        try:
            read_lock(text)
        except LockError as error:
            raise _unresolved(str(error)) from None
        if not place.exists():
            place.touch()
        write_whole(place, text)
        if as_json:
            out_json({"playbook": str(playbook), "lock": str(place), "packages": len(pins)})
        else:
            out(f"{place}: {len(pins)} packages with their hashes")
    if not locked:
        raise InvalidInputError(
            f"{', '.join(targets)}: there is no `executor.spec.requirements`",
            code="nothing_to_lock",
            hint="name the libraries there, such as [pandas==2.2.*]",
        )
    return errors.DONE


def _place(playbook: Path) -> Path:
    """Return where the lock is written.

    Raises InvalidInputError for a link that would have another file replaced.
    """
    place = lock_beside(playbook)
    try:
        outside = not place.resolve().is_relative_to(place.parent)
    except (OSError, RuntimeError):  # a circle of links
        outside = True
    if outside:
        raise InvalidInputError(
            f"{place} is a link that leads out of the playbook's folder",
            code="file_unwritable",
            hint="remove the link, and lock again",
        )
    return place


def required_by(playbook: Path) -> list[Requirement]:
    """Read the requirements of a playbook.

    Raises NotFoundError, InvalidInputError, InvalidPlaybookError.
    """
    from noetl.domain.text.version_text import split_version
    from noetl.dsl.diagnostics import Diagnostics
    from noetl.dsl.yaml_text.loader import load
    from noetl.dsl.yaml_text.tree import items_of, mapping_of, text_of

    diagnostics = Diagnostics()
    root = load(split_version(playbook_text(playbook))[0], diagnostics)
    diagnostics.raise_errors(str(playbook))
    if root is None:
        return []
    tree = mapping_of(mapping_of(root.get("executor")).get("spec")).get("requirements")
    items = items_of(tree)
    if tree is not None and (not items or len(items) > REQUIREMENTS.value):
        raise InvalidInputError(
            f"{playbook}:{tree.pos.line}:{tree.pos.column}: `requirements` is not a list of 1 to {REQUIREMENTS.value} texts",
            code="requirement",
            hint="such as [pandas==2.2.*]",
        )
    found = []
    for item in items:
        text = text_of(item) or ""
        required = read_requirement(text)
        if required is None:
            raise InvalidInputError(
                f"{playbook}:{item.pos.line}:{item.pos.column}: {text[:80]!r} is not the requirement of a package",
                code="requirement",
                hint="such as pandas==2.2.*",
            )
        found.append(required)
    return found


def resolve(required: Sequence[Requirement], platforms: Sequence[str], wheels: str) -> list[Pin]:
    """Return what pip would install, for this machine and for the platforms.

    Raises InfrastructureError.
    """
    try:
        pins = merged([_resolved(required, platform, wheels) for platform in ("", *platforms)])
    except LockError as error:
        raise _unresolved(str(error)) from None
    if len(pins) > LOCK_PINS.value:
        raise _unresolved(f"they need {len(pins)} packages; at most {LOCK_PINS.value} are installed")
    return pins


def _resolved(required: Sequence[Requirement], platform: str, wheels: str) -> dict[str, Pin]:
    with tempfile.TemporaryDirectory(prefix="noetl-lock-") as folder:
        report, names = Path(folder) / "report.json", Path(folder) / "requirements.txt"
        names.write_text("".join(f"{one.text}\n" for one in required))
        offline = ("--no-index", "--find-links", str(Path(wheels).resolve())) if wheels else ()
        wanted = ("--platform", platform) if platform else ()
        places = ("--target", f"{folder}/none", "--report", str(report), "--requirement", str(names))
        try:
            done = subprocess.run(
                [sys.executable, "-I", *_PIP, *offline, *wanted, *places],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=folder,
                env=pip_environment(),
                timeout=LIBRARIES_SECONDS.value,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise _unresolved(f"pip took more than {LIBRARIES_SECONDS.value} seconds") from None
        if done.returncode != 0:
            raise _unresolved(reason_of(done.stderr.decode(errors="replace")))
        return dict(_pin(entry) for entry in json.loads(report.read_text())["install"])


def _pin(entry: dict[str, Any]) -> tuple[str, Pin]:
    name, version = canonical_name(entry["metadata"]["name"]), entry["metadata"]["version"]
    archive = entry["download_info"].get("archive_info", {})
    # pip before 23.1 has the older field alone for files of a folder (packaging.python.org, direct_url.json).
    method, _, older = archive.get("hash", "").partition("=")
    digest = archive.get("hashes", {}).get("sha256") or (older if method == "sha256" else "")
    if not digest:
        raise _unresolved(f"pip reports no SHA-256 of {name} {version}")
    return name, Pin(name, version, (digest,))


def _unresolved(reason: str) -> InfrastructureError:
    return InfrastructureError(
        f"the requirements cannot be resolved: {reason}",
        code="requirements_unresolved",
        hint="only wheels are taken: correct the requirement or pip's settings of the index, or name a folder of wheels with"
        " --wheels or NOETL_WHEELS",
        retryable=False,
    )
