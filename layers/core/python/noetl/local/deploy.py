"""Deployment of the stacks of a checkout.

It runs ``cdk synth`` once, ``cdk bootstrap``, and ``cdk deploy --all`` of what was synthesized.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from noetl.domain.errors import InfrastructureError
from noetl.local.emulator import ACCOUNT, REGION, ask, credentials
from noetl.local.layout import Layout
from noetl.local.tools import Progress, run

READY_SECONDS = 45.0
POLL_SECONDS = 0.2
QUIET = {
    "CDK_DISABLE_CLI_TELEMETRY": "1",
    "CDK_DISABLE_VERSION_CHECK": "1",
    "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_DEPRECATED_NODE_VERSION": "1",
    "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20",
    "NO_COLOR": "1",
}
UNCHECKED = {"CDK_VALIDATION": "false"}
"""The CDK's own check of templates takes a third of a synthesis. It is for accounts, which refuse what an emulator takes."""
_API = re.compile(r"^https?://([a-z0-9]+)\.execute-api\.")
_UI = re.compile(r"^https://([a-z0-9]+)\.cloudfront\.net/ui/$")
_DONE = re.compile(r"^ ?✅ +(\S+)")


def check_library() -> None:
    """Check that the CDK's Python library is installed beside this one.

    Raises InfrastructureError when it is not.
    """
    if importlib.util.find_spec("aws_cdk") is None:
        raise InfrastructureError(
            "the package aws-cdk-lib is missing; the stacks are written with it",
            code="cdk_missing",
            hint="pip install 'noetl-serverless[infra]', or `make setup` in the checkout",
            retryable=False,
        )


def environment(endpoint: str) -> dict[str, str]:
    """Return the caller's environment with AWS's variables replaced.

    This interpreter is first on the path.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", "")])
    return {**kept, "PATH": path, **QUIET, **UNCHECKED, **credentials(endpoint)}


def synth(
    layout: Layout,
    project: Path,
    node_modules: Path,
    endpoint: str,
    environment_name: str,
    context: Sequence[str],
) -> None:
    """Synthesize every stack of the environment into the layout's assembly.

    Raises InfrastructureError.
    """
    shutil.rmtree(layout.assembly, ignore_errors=True)
    command = [*cdk_command(node_modules), "synth", "--quiet", "--output", str(layout.assembly)]
    command += ["--context", f"env={environment_name}"]
    for pair in context:
        command += ["--context", pair]
    run(command, "cdk synth", cwd=project, env=environment(endpoint), log=layout.deploy_log)


def bootstrap(layout: Layout, node_modules: Path, endpoint: str) -> None:
    """Make the bucket and roles that every deployment needs. Raises InfrastructureError."""
    command = [*cdk_command(node_modules), "bootstrap", f"aws://{ACCOUNT}/{REGION}"]
    run(command, "cdk bootstrap", cwd=layout.root, env=environment(endpoint), log=layout.deploy_log)


def deploy(
    layout: Layout, node_modules: Path, endpoint: str, progress: Progress
) -> dict[str, dict[str, str]]:
    """Deploy what was synthesized; return the outputs of each stack.

    Raises InfrastructureError.
    """
    layout.outputs.unlink(missing_ok=True)
    command = [*cdk_command(node_modules), "deploy", "--all", "--app", str(layout.assembly)]
    command += ["--require-approval", "never", "--concurrency", "4", "--progress", "events"]
    command += ["--outputs-file", str(layout.outputs)]

    def watch(line: str) -> None:
        done = _DONE.match(line)
        if done:
            progress(f"{done[1]} deployed")

    run(
        command,
        "cdk deploy",
        cwd=layout.root,
        env=environment(endpoint),
        log=layout.deploy_log,
        watch=watch,
    )
    outputs: dict[str, dict[str, str]] = json.loads(layout.outputs.read_text())
    return outputs


def api_url(outputs: dict[str, dict[str, str]], endpoint: str, own_emulator: bool) -> str | None:
    """Return the API's URL on this machine.

    Its name under ``execute-api`` does not resolve here, so the URL has it in the path.

    Our emulator serves the default stage at the API's root; LocalStack wants the stage's name.
    """
    for values in outputs.values():
        for value in values.values():
            found = _API.match(str(value))
            if found:
                return f"{endpoint}/_aws/execute-api/{found[1]}{'' if own_emulator else '/$default'}"
    return None


def ui_url(outputs: dict[str, dict[str, str]], endpoint: str) -> str | None:
    """Return the address of the web UI on this machine; None where it is not deployed.

    Browsers resolve names below ``localhost`` by themselves.
    """
    for values in outputs.values():
        if found := _UI.match(values.get("UiAddress", "")):
            return f"http://{found[1]}.cloudfront.localhost:{urlsplit(endpoint).port}/ui/"
    return None


def wait_ready(api: str) -> None:
    """Return when the API's ``/ready`` answers 200.

    Raises InfrastructureError when it does not in time.
    """
    deadline = time.monotonic() + READY_SECONDS
    answer: tuple[int, str] | None = None
    while time.monotonic() < deadline:
        answer = ask(api, "/ready", timeout=30.0)
        if answer and answer[0] == 200:
            return
        if answer and answer[0] == 404:
            break  # the emulator knows no such API: it has lost what was deployed
        time.sleep(POLL_SECONDS)
    shown = f"it answers {answer[0]}: {answer[1][:500]}" if answer else "no server answers"
    lost = answer is not None and answer[0] == 404
    raise InfrastructureError(
        f"the deployed API is not ready: {urlsplit(api).path}/ready: {shown}",
        code="api_not_ready",
        hint="noetl local up deploys again" if lost else "noetl local logs api shows what the function says",
    )


def cdk_command(node_modules: Path) -> list[str]:
    """How the CDK's command line begins."""
    return [str(node_modules / ".bin" / "cdk"), "--no-notices", "--no-version-reporting"]
