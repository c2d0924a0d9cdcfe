"""``noetl deploy``: an environment on AWS, from the checkout."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noetl.cli import errors
from noetl.cli.options import Home, Json, Yes, end
from noetl.cli.render.output import note, out, out_json
from noetl.cli.render.progress import Progress
from noetl.domain.errors import InfrastructureError, InvalidInputError

if TYPE_CHECKING:
    from noetl.local.release import Account, Release


def deploy(
    environment: Annotated[str, typer.Argument(metavar="ENV", help="dev, staging, prod, or one of yours.")],
    like: Annotated[
        str, typer.Option(metavar="ENV", help="Make a new environment like this one: a stack for a branch.")
    ] = "",
    environments: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Environments of yours (environments.yaml, if there is one)."),
    ] = None,
    context: Annotated[
        list[str] | None,
        typer.Option("--context", "-c", metavar="NAME=VALUE", help="Passed on to the CDK. Repeatable."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only synthesize: needs no account, and changes nothing.")
    ] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Only show what would change in the account.")] = False,
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Prepare the account and region for the CDK first.")
    ] = False,
    yes: Yes = False,
    profile: Annotated[str, typer.Option(metavar="NAME", help="A profile of ~/.aws.")] = "",
    region: Annotated[str, typer.Option(metavar="REGION", help="Instead of AWS_REGION.")] = "",
    project: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The checkout to deploy (the one you are in).")
    ] = None,
    keep_as: Annotated[
        str,
        typer.Option(
            "--as", metavar="NAME", help="Name of the context that is kept for the API (default: ENV)."
        ),
    ] = "",
    as_json: Json = False,
    home: Home = None,
) -> None:
    """Deploy an environment to AWS with the CDK.

    Tools and account are checked first; the API is kept as a context for --remote.

    \b
      noetl deploy dev --dry-run
      noetl deploy dev --diff --profile ops
      noetl deploy dev --yes -c alarm_email=ops@example.com
      noetl deploy pr-42 --like dev -c cidr=10.43.0.0/16
      noetl list --context dev

    Needs Node 22 or newer, the package registries the first time, and credentials of the account (not for --dry-run). Give the same
    --context at every deployment: what an earlier one added and this one does not name is removed. Exit code 3 when something is missing,
    or when the deployment fails.
    """
    from noetl.local import release as releases
    from noetl.local.layout import layout
    from noetl.local.layout import project as find_project

    if dry_run and (diff or bootstrap):
        raise InvalidInputError(
            "--dry-run needs no account, and --diff and --bootstrap do",
            code="invalid_option",
            hint="one of them",
        )
    wanted = releases.Release(
        environment,
        find_project(project),
        layout(home).root.parent / "deploy" / environment,
        tuple(context or ()),
        profile,
        region,
        _file(environments),
        like,
    )
    wanted, progress = releases.checked(wanted), Progress(as_json)
    where = None if dry_run else releases.account(wanted)
    if where is not None:
        _agree(where, wanted, bootstrap, diff or yes)
    node_modules = releases.prepare(wanted, progress)
    progress("synthesizing the stacks")
    stacks = releases.synth(wanted, node_modules)
    if where is None:
        _print_stacks(stacks, wanted, as_json)
        _print_cost(releases.idle_cost(wanted), releases.deployed_cost(wanted), as_json)
        end(errors.DONE)
        return
    if bootstrap:
        progress(f"bootstrapping {where.id} in {where.region}")
        releases.bootstrap(wanted, node_modules, where)
    if diff:
        _print_cost(releases.idle_cost(wanted), releases.deployed_cost(wanted), as_json)
        releases.diff(wanted, node_modules, (lambda line: out_json({"diff": line})) if as_json else out)
        end(errors.DONE)
    progress(f"deploying {len(stacks)} stacks to {where.id} in {where.region}")
    outputs = releases.deploy(wanted, node_modules, progress)
    releases.keep_cost(wanted)
    access = _keep(wanted, where, outputs, keep_as or environment, home)
    if as_json:
        out_json(
            {"event": "deployed", "account": where.id, "region": where.region, **access, "outputs": outputs}
        )
    else:
        _print(outputs, access, progress.spent)
    end(errors.DONE)


def _agree(where: Account, release: Release, bootstrap: bool, agreed: bool) -> None:
    """Nothing is deployed to an account that was not seen, or not meant.

    Raises InfrastructureError and InvalidInputError.
    """
    if not where.bootstrapped and not bootstrap:
        raise InfrastructureError(
            f"account {where.id} is not prepared for the CDK in {where.region}",
            code="not_bootstrapped",
            hint=f"once: noetl deploy {release.environment} --bootstrap (who may administer the account)",
            retryable=False,
        )
    what = f"deploy {release.environment} to account {where.id} in {where.region} as {where.principal}"
    if agreed:
        note(what)
    elif not sys.stdin.isatty():
        raise InvalidInputError(
            f"without a terminal no person can confirm: {what}",
            code="not_confirmed",
            hint="--yes, or --diff to look first",
        )
    elif not typer.confirm(f"{what}?", err=True):
        end(errors.DONE)


def _print_stacks(stacks: dict[str, int], release: Release, as_json: bool) -> None:
    if as_json:
        out_json({"event": "synthesized", "stacks": stacks, "assembly": str(release.assembly)})
        return
    for name, count in stacks.items():
        out(f"{name:<32} {count:>4} resources")
    out(f"templates: {release.assembly}")


def _file(given: Path | None) -> Path | None:
    """The file of environments, in full: the CDK runs in another folder.

    Raises InvalidInputError.
    """
    place = given or Path("environments.yaml")
    if place.is_file():
        return place.resolve()
    if given is not None:
        raise InvalidInputError(
            f"--environments {given}: there is no such file",
            code="invalid_option",
            hint="docs/environments.md shows one",
        )
    return None


def _print_cost(now: dict[str, float] | None, before: dict[str, float] | None, as_json: bool) -> None:
    """Print the cost of an idle month, and its change against the last deployment from here."""
    if now is None:
        return
    total = round(sum(now.values()), 2)
    if as_json:
        cost: dict[str, object] = {"event": "idle_cost", "dollars_per_month": now, "total": total}
        if before is not None:
            cost |= {"deployed": before, "change": round(total - sum(before.values()), 2)}
        out_json(cost)
        return
    out("dollars per month while idle (list prices, without storage and traffic):")
    for name in sorted({*now, *(before or {})}, key=lambda one: -now.get(one, 0.0)):
        out(f"  {name:<24} {_dollars(now, before, name)}")
    change = "" if before is None else f"  ({total - sum(before.values()):+.2f} against what is deployed)"
    out(f"  {'together':<24} {total:>9.2f}{change}")


def _dollars(now: dict[str, float], before: dict[str, float] | None, name: str) -> str:
    change = now.get(name, 0.0) - (before or {}).get(name, 0.0)
    return f"{now.get(name, 0.0):>9.2f}" + (
        f"  ({change:+.2f})" if before is not None and abs(change) >= 0.005 else ""
    )


def _keep(
    release: Release, where: Account, outputs: dict[str, dict[str, str]], name: str, home: str | None
) -> dict[str, str]:
    """Store a context for an API of signed requests; return ``api``, ``auth`` and ``context``."""
    from noetl.cli.client.profiles import Context, checked, contexts

    api = outputs.get(f"Noetl-{release.environment}-Api", {})
    access = {"api": api.get("ApiEndpoint", ""), "auth": api.get("ApiAuth", "")}
    if access["auth"] != "iam" or not access["api"]:
        return access
    made = Context(name, access["api"], "iam", profile=release.profile, region=where.region)
    contexts(home).put(checked(made), use=False)
    return {**access, "context": name}


def _print(outputs: dict[str, dict[str, str]], access: dict[str, str], seconds: float) -> None:
    for stack, values in sorted(outputs.items()):
        for name, value in sorted(values.items()):
            if not name.startswith("ExportsOutput"):
                out(f"  {stack}.{name} = {value}")
    out(f"API  {access['api']}")
    if "context" in access:
        out(f"next:  noetl list --context {access['context']}    noetl context use {access['context']}")
    elif access["auth"] == "jwt":
        out(f"next:  noetl context add NAME --url {access['api']} --token-env VARIABLE")
    out(f"deployed in {seconds:.0f} s")
