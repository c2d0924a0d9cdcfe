"""An environment on AWS from the checkout.

It runs `cdk synth|diff|deploy --all` with the pinned command line, after it checked what they need.
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from noetl.domain.errors import InfrastructureError, InvalidInputError
from noetl.dsl.diagnostics import Diagnostics, did_you_mean
from noetl.dsl.python_source import parse_python
from noetl.dsl.yaml_text.loader import load
from noetl.local.deploy import QUIET, cdk_command, check_library
from noetl.local.tools import Progress, cdk, run

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_PAIR = re.compile(r"[A-Za-z_][A-Za-z0-9_.:@/-]*=.*", re.DOTALL)
_DONE = re.compile(r"^ ?✅ +(\S+)( \(no changes\))?")
_BEGUN = re.compile(r"^(\S+): deploying")
_FAILED = re.compile(r"\b(CREATE_FAILED|UPDATE_FAILED|DELETE_FAILED|ROLLBACK_IN_PROGRESS)\b")
LONGEST_ANSWER = 20.0


@dataclass(frozen=True, slots=True)
class Release:
    """What to deploy from where.

    ``folder``: of the synthesized stacks, outputs and the log. ``context``: NAME=VALUE for the CDK.

    ``file``: of environments; ``like``: what an environment is made like that is in neither.
    """

    environment: str
    project: Path
    folder: Path
    context: tuple[str, ...] = ()
    profile: str = ""
    region: str = ""
    file: Path | None = None
    like: str = ""

    @property
    def settings(self) -> tuple[str, ...]:
        """All context, as the CDK is given it."""
        own = [f"env={self.environment}"]
        own += [f"environments={self.file}"] if self.file is not None else []
        own += [f"like={self.like}"] if self.like else []
        return (*own, *self.context)

    @property
    def assembly(self) -> Path:
        return self.folder / "cdk.out"

    @property
    def log(self) -> Path:
        return self.folder / "deploy.log"


@dataclass(frozen=True, slots=True)
class Account:
    """Whose credentials these are. ``bootstrapped``: the CDK may deploy there."""

    id: str
    region: str
    principal: str
    bootstrapped: bool


def checked(release: Release) -> Release:
    """Raises InvalidInputError for what cannot be meant, before AWS is asked for anything."""
    if release.environment == "local":
        raise InvalidInputError(
            "the environment local is for an emulator", code="unknown_environment", hint="noetl local up"
        )
    known = _environments(release.project, release.file)
    listed = ", ".join(known) or "see infra/environments.py"
    if not _NAME.fullmatch(release.environment):
        raise InvalidInputError(
            f"{release.environment[:60]!r} is not a name of an environment",
            code="unknown_environment",
            hint=f"environments of this checkout: {listed}",
        )
    if known and release.environment not in known and not release.like:
        raise InvalidInputError(
            f"there is no environment {release.environment!r}",
            code="unknown_environment",
            hint=did_you_mean(
                release.environment,
                known,
                f"environments: {listed}; a new one is like another: noetl deploy {release.environment} --like dev",
            ),
        )
    if known and release.like and release.like not in known:
        raise InvalidInputError(
            f"--like {release.like[:60]!r} is no environment",
            code="unknown_environment",
            hint=did_you_mean(release.like, known, f"environments: {listed}"),
        )
    for pair in release.context:
        if not _PAIR.fullmatch(pair) or pair.startswith(("env=", "like=", "environments=")):
            raise InvalidInputError(
                f"--context {pair[:60]!r} is not NAME=VALUE",
                code="invalid_context",
                hint="such as alarm_email=ops@example.com; the environment is the command's argument, and has --like and --environments",
            )
    return release


def _environments(project: Path, file: Path | None) -> tuple[str, ...]:
    """Return what can be deployed: the presets of the checkout and those of the file.

    It is empty when that cannot be read: the CDK judges the name then.
    """
    try:
        body = parse_python((project / "infra" / "environments.py").read_text("utf-8")).body
        tables = [
            ast.literal_eval(one.value)
            for one in body
            if isinstance(one, ast.Assign) and [ast.unparse(name) for name in one.targets] == ["NAMES"]
        ]
        presets = [str(name) for name in tables[-1] if name != "local"]
        own = load(file.read_bytes(), Diagnostics()) if file is not None else None
        if file is not None and own is None:
            return ()  # the full parser reports what is wrong
        return tuple(dict.fromkeys([*presets, *(own.entries if own is not None else ())]))
    except (OSError, ValueError, SyntaxError, TypeError, IndexError):
        return ()


def prepare(release: Release, progress: Progress) -> Path:
    """The Node packages with the CDK; an empty log. Raises InfrastructureError."""
    check_library()
    release.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    release.log.unlink(missing_ok=True)
    return cdk(release.project, progress)


def account(release: Release) -> Account:
    """Return the account that AWS reports for these credentials.

    Raises InfrastructureError without valid credentials, or when it is not the account that was pinned.
    """
    from noetl.local.aws import client, failures

    options = {"profile": release.profile, "region": release.region}
    try:
        identity = client("sts", None, timeout=LONGEST_ANSWER, **options).get_caller_identity()
        stacks = client("cloudformation", None, timeout=LONGEST_ANSWER, **options)
    except failures() as error:
        raise _no_account(error) from error
    found, pinned = str(identity["Account"]), os.environ.get("NOETL_ACCOUNT", "")
    if pinned and pinned != found:
        raise InfrastructureError(
            f"these credentials are of account {found}, and NOETL_ACCOUNT pins {pinned}",
            code="aws_other_account",
            hint="use the other account's credentials (--profile NAME), or unset NOETL_ACCOUNT",
            retryable=False,
        )
    try:
        stacks.describe_stacks(StackName="CDKToolkit")
        ready = True
    except failures() as error:
        if "does not exist" not in str(error):
            raise _no_account(error) from error
        ready = False
    return Account(found, str(stacks.meta.region_name), str(identity["Arn"]), ready)


def _no_account(error: Exception) -> InfrastructureError:
    return InfrastructureError(
        f"AWS cannot be asked: {error}",
        code="aws_credentials",
        hint="`aws sso login` or `aws configure`, then --profile NAME (or AWS_PROFILE) and --region REGION (or AWS_REGION)",
        retryable=False,
    )


def synth(release: Release, node_modules: Path) -> dict[str, int]:
    """Synthesize every stack; how many resources each has, in the order they are deployed.

    Raises InfrastructureError.
    """
    shutil.rmtree(release.assembly, ignore_errors=True)
    command = [*cdk_command(node_modules), "synth", "--quiet", "--output", str(release.assembly)]
    for pair in release.settings:
        command += ["--context", pair]
    _run(release, command, "cdk synth", cwd=release.project)
    manifest = json.loads((release.assembly / "manifest.json").read_text())
    stacks = {
        name: artifact.get("dependencies", [])
        for name, artifact in manifest["artifacts"].items()
        if artifact["type"] == "aws:cloudformation:stack"
    }
    return {name: _resources(release.assembly, manifest, name) for name in _ordered(stacks)}


def idle_cost(release: Release) -> dict[str, float] | None:
    """Return dollars a month of what was synthesized while it is idle, by line of the bill.

    None: the app of another project computes none.
    """
    return _bill(release.assembly / "idle-cost.json")


def deployed_cost(release: Release) -> dict[str, float] | None:
    """The same of the last deployment from this home; None: there was none."""
    return _bill(release.folder / "deployed-cost.json")


def keep_cost(release: Release) -> None:
    """Remember what was deployed, for the next look."""
    with contextlib.suppress(OSError):
        shutil.copyfile(release.assembly / "idle-cost.json", release.folder / "deployed-cost.json")


def _bill(path: Path) -> dict[str, float] | None:
    try:
        found = json.loads(path.read_text("utf-8"))
        return {str(name): float(dollars) for name, dollars in found["dollars_per_month"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _ordered(stacks: Mapping[str, Sequence[str]]) -> list[str]:
    """Each after those it depends on."""
    done: list[str] = []

    def add(name: str) -> None:
        if name in stacks and name not in done:
            for before in stacks[name]:
                add(before)
            done.append(name)

    for name in sorted(stacks):
        add(name)
    return done


def _resources(assembly: Path, manifest: dict[str, object], name: str) -> int:
    artifact = manifest["artifacts"][name]  # type: ignore[index]
    template = json.loads((assembly / artifact["properties"]["templateFile"]).read_text())
    return len(template.get("Resources", {}))


def bootstrap(release: Release, node_modules: Path, where: Account) -> None:
    """Make the bucket and roles that every deployment needs. Raises InfrastructureError."""
    command = [*cdk_command(node_modules), "bootstrap", f"aws://{where.id}/{where.region}"]
    _run(release, command, "cdk bootstrap", cwd=release.folder)


def diff(release: Release, node_modules: Path, print_line: Callable[[str], None]) -> None:
    """What a deployment would change, a line at a time. Raises InfrastructureError."""
    command = [*cdk_command(node_modules), "diff", "--all", "--app", str(release.assembly)]
    _run(release, command, "cdk diff", cwd=release.folder, watch=print_line)


def deploy(release: Release, node_modules: Path, progress: Progress) -> dict[str, dict[str, str]]:
    """Deploy what was synthesized; the outputs of each stack.

    Raises InfrastructureError with the end of what the CDK said.
    """
    outputs = release.folder / "outputs.json"
    outputs.unlink(missing_ok=True)
    command = [*cdk_command(node_modules), "deploy", "--all", "--app", str(release.assembly)]
    command += ["--require-approval", "never", "--concurrency", "2", "--progress", "events"]
    command += ["--outputs-file", str(outputs)]

    def watch(line: str) -> None:
        if done := _DONE.match(line):
            progress(f"{done[1]} {'is as it was' if done[2] else 'deployed'}")
        elif begun := _BEGUN.match(line):
            progress(f"{begun[1]} …")
        elif _FAILED.search(line):
            progress(line.strip())

    _run(release, command, "cdk deploy", cwd=release.folder, watch=watch)
    found: dict[str, dict[str, str]] = json.loads(outputs.read_text())
    return found


def _run(
    release: Release,
    command: Sequence[str],
    name: str,
    *,
    cwd: Path,
    watch: Callable[[str], None] | None = None,
) -> None:
    run(command, name, cwd=cwd, env=_environment(release), log=release.log, watch=watch)


def _environment(release: Release) -> dict[str, str]:
    """The caller's own, with this interpreter first on the path: the app is Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    made = {**os.environ, **QUIET, "PATH": path}
    if release.profile:
        made["AWS_PROFILE"] = release.profile
    if release.region:
        made |= {"AWS_REGION": release.region, "AWS_DEFAULT_REGION": release.region}
    return made
