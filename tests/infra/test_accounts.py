"""What another team's account asks of a deployment: its network, its boundary, its tags, canaries, backups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.config import BackupConfig, ContainersConfig
from infra.environments import load_environment
from tests.infra.templates import Templates
from tests.infra.test_config import VPC

VAULT = "arn:aws:backup:eu-west-1:123456789012:backup-vault:far"


@pytest.fixture(scope="module")
def corp(synthesise: Callable[..., Path]) -> Templates:
    """Prod in a known account and network, with everything that a platform team asks for."""
    prod = load_environment("prod")
    changes = {
        "network": replace(prod.network, existing=VPC),
        "database": replace(prod.database, proxy=True),
        "account": "123456789012",
        "region": "eu-west-1",
        "permissions_boundary": "limits",
        "qualifier": "corp1",
        "backup": BackupConfig(copy_to=VAULT),
        "containers": ContainersConfig(private=True),
        "tags": {"team": "data"},
    }
    topic = "arn:aws:sns:eu-west-1:123456789012:ops"
    return Templates(synthesise("prod", None, changes, alarm_topic=topic), "Noetl-prod-")


def test_a_network_that_exists_is_used_and_not_changed(corp: Templates) -> None:
    kinds = {place.resource["Type"].rsplit(":", 1)[1] for place in corp.all() if place.stack == "Network"}
    assert kinds == {"SecurityGroup", "SecurityGroupEgress", "SecurityGroupIngress"}
    for function in ("api", "worker-http"):
        place = corp.function(f"noetl-prod-{function}")
        assert place.properties["VpcConfig"]["SubnetIds"] == list(VPC.engine_subnets)
    subnets = next(corp.all("AWS::RDS::DBSubnetGroup")).properties["SubnetIds"]
    assert subnets == list(VPC.engine_subnets)
    (long,) = corp.all("AWS::ECS::Service")
    where = long.properties["NetworkConfiguration"]["AwsvpcConfiguration"]
    assert (where["Subnets"], where["AssignPublicIp"]) == (list(VPC.engine_subnets), "DISABLED")


def test_a_proxy_takes_tls_only_and_all_but_migrations_go_through_it(corp: Templates) -> None:
    (proxy,) = corp.all("AWS::RDS::DBProxy")
    assert proxy.properties["RequireTLS"] is True
    pooled = {
        name: corp.variables(corp.function(f"noetl-prod-{name}")).get("NOETL_DATABASE_POOLED")
        for name in ("api", "engine", "decide", "scheduler", "maintenance", "migrate")
    }
    assert pooled == {name: None if name == "migrate" else "1" for name in pooled}


def test_every_role_has_the_boundary_and_every_stack_the_tags(corp: Templates) -> None:
    roles = list(corp.all("AWS::IAM::Role"))
    assert len(roles) > 20
    for role in roles:
        boundary = corp.text(role.stack, role.properties["PermissionsBoundary"])
        assert boundary.endswith(":policy/limits"), str(role)
    manifest = (corp.folder / "manifest.json").read_text()
    assert manifest.count('"team": "data"') >= 8 and "cdk-corp1-deploy-role" in manifest


def test_new_versions_are_rolled_out_behind_an_alias(prod: Path, dev: Path) -> None:
    templates = Templates(prod, "Noetl-prod-")
    aliases = {
        templates.target(one.stack, {"Ref": one.id}).properties["FunctionName"]: one
        for one in templates.all("AWS::Lambda::Alias")
    }
    functions = templates.all("AWS::Lambda::Function")
    ours = {one.properties["FunctionName"] for one in functions if "FunctionName" in one.properties}
    assert aliases.keys() == ours - {"noetl-prod-migrate"}
    for name, alias in aliases.items():
        update = alias.resource["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]
        group = templates.resource(f"{alias.stack}.{update['DeploymentGroupName']['Ref']}").properties
        assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
        undone_by = set(group["AutoRollbackConfiguration"]["Events"])
        assert undone_by >= {"DEPLOYMENT_STOP_ON_ALARM", "DEPLOYMENT_FAILURE"}
        (alarm,) = group["AlarmConfiguration"]["Alarms"]
        rings = templates.resource(templates.text(alias.stack, alarm["Name"])).properties
        assert (rings["AlarmName"], rings["MetricName"]) == (f"{name}-release", "Errors")
        assert {one["Name"] for one in rings["Dimensions"]} == {"FunctionName", "Resource"}
    references = [{"Ref": alias.id} for alias in aliases.values()]
    for mapping in templates.all("AWS::Lambda::EventSourceMapping"):
        name = mapping.properties["FunctionName"]
        assert name in references or "live" in templates.text(mapping.stack, name), str(mapping)
    api = templates.variables(templates.function("noetl-prod-api"))
    assert api["NOETL_SCHEDULER_TARGET_ARN"].endswith(":function:noetl-prod-scheduler:live")
    assert not list(Templates(dev, "Noetl-dev-").all("AWS::Lambda::Alias"))


def test_what_holds_data_is_copied_each_night_and_copied_on(corp: Templates) -> None:
    (plan,) = corp.all("AWS::Backup::BackupPlan")
    (rule,) = plan.properties["BackupPlan"]["BackupPlanRule"]
    kept = {"DeleteAfterDays": 35}
    assert rule["Lifecycle"] == kept
    assert rule["CopyActions"] == [{"DestinationBackupVaultArn": VAULT, "Lifecycle": kept}]
    (selection,) = corp.all("AWS::Backup::BackupSelection")
    chosen = [corp.text(selection.stack, one) for one in selection.properties["BackupSelection"]["Resources"]]
    assert len(chosen) == 3 and any(":cluster:" in one for one in chosen)
    (results,) = (
        place.properties
        for place in corp.all("AWS::S3::Bucket")
        if "NotificationConfiguration" in place.properties
    )
    assert results["VersioningConfiguration"] == {"Status": "Enabled"}
    rules = results["LifecycleConfiguration"]["Rules"]
    old = [one["NoncurrentVersionExpiration"] for one in rules if "NoncurrentVersionExpiration" in one]
    assert old == [{"NoncurrentDays": 30}]
