"""What a platform team may switch on: a private API, a firewall in front of it, code of playbooks in isolated subnets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from infra.config import ApiConfig, ConfigError
from infra.environments import load_environment
from infra.idle_cost import Assembly, bill
from tests.infra.templates import Templates, as_list

METHOD = "AWS::ApiGateway::Method"


@pytest.fixture(scope="module")
def guarded(synthesise: Callable[..., Path]) -> Templates:
    """Staging with all of the switches at once."""
    staging = load_environment("staging")
    api = ApiConfig(auth="iam", reach="private", waf=True, callers=("10.0.0.0/8",))
    changes = {
        "account": "123456789012",
        "region": "cn-north-1",
        "api": api,
        "network": replace(staging.network, egress="both", code="isolated"),
        "workers": replace(staging.workers, long=False),
    }
    return Templates(synthesise("staging", None, changes, alarm_email="ops@example.com"), "Noetl-staging-")


def test_only_the_endpoint_leads_to_a_private_api(guarded: Templates) -> None:
    (api,) = guarded.all("AWS::ApiGateway::RestApi")
    assert api.properties["EndpointConfiguration"]["Types"] == ["PRIVATE"]
    (endpoint,) = (
        one
        for one in guarded.all("AWS::EC2::VPCEndpoint")
        if one.properties.get("PrivateDnsEnabled") is False
    )
    (denied,) = (one for one in api.properties["Policy"]["Statement"] if one["Effect"] == "Deny")
    ((key, value),) = denied["Condition"]["StringNotEquals"].items()
    assert (key, guarded.text(api.stack, value)) == ("aws:SourceVpce", f"<{endpoint.key}>")
    assert denied["Principal"] == {"AWS": "*"}
    group = guarded.resource(guarded.text(endpoint.stack, endpoint.properties["SecurityGroupIds"][0]))
    ranges = [guarded.text(group.stack, one["CidrIp"]) for one in group.properties["SecurityGroupIngress"]]
    assert len(ranges) == 2 and "10.0.0.0/8" in ranges
    assert not list(guarded.all("AWS::ApiGatewayV2::Api"))


def test_every_method_is_signed_but_those_whose_address_is_the_credential(guarded: Templates) -> None:
    paths = {one.id: one for one in guarded.all("AWS::ApiGateway::Resource")}

    def path(id: str) -> str:
        found = paths.get(id)
        if found is None:
            return ""
        parent = found.properties["ParentId"]
        return f"{path(parent.get('Ref', ''))}/{found.properties['PathPart']}"

    open_methods = set()
    for method in guarded.all(METHOD):
        if method.properties["AuthorizationType"] == "NONE":
            open_methods.add(
                f"{method.properties['HttpMethod']} {path(method.properties['ResourceId']['Ref'])}"
            )
        else:
            assert method.properties["AuthorizationType"] == "AWS_IAM"
    assert open_methods == {
        "POST /api/hooks/{token}",
        "GET /api/callbacks/{token}",
        "POST /api/callbacks/{token}",
    }
    (stage,) = guarded.all("AWS::ApiGateway::Stage")
    settings = stage.properties["MethodSettings"]
    assert (
        sum("callbacks" in one["ResourcePath"] and one["ThrottlingRateLimit"] == 20 for one in settings) == 2
    )
    assert "waf" in stage.properties["AccessLogSetting"]["Format"]


def test_the_firewall_blocks_addresses_and_counts_what_judges_a_body(guarded: Templates) -> None:
    (acl,) = guarded.all("AWS::WAFv2::WebACL")
    assert acl.properties["Scope"] == "REGIONAL"
    rules = {one["Name"]: one for one in acl.properties["Rules"]}
    assert rules["rate"]["Statement"]["RateBasedStatement"] == {"AggregateKeyType": "IP", "Limit": 2000}
    assert rules["rate"]["Action"] == {"Block": {}}
    common = rules["AWSManagedRulesCommonRuleSet"]["Statement"]["ManagedRuleGroupStatement"]
    counted = {one["Name"] for one in common["RuleActionOverrides"]}
    assert "SizeRestrictions_BODY" in counted and all(name.endswith("_BODY") for name in counted)
    (link,) = guarded.all("AWS::WAFv2::WebACLAssociation")
    assert "/stages/" in guarded.text(link.stack, link.properties["ResourceArn"])


def test_workers_ask_a_private_api_through_its_endpoint(guarded: Templates) -> None:
    worker = guarded.function("noetl-staging-worker-http")
    assert "VpcConfig" in worker.properties
    url = guarded.variables(worker)["NOETL_API_URL"]
    assert url.startswith("https://<Api.") and ".execute-api." in url and url.endswith("/live")
    asked = [
        resource for action, resource in guarded.allowed(guarded.role_of(worker)) if "execute-api" in action
    ]
    assert len(asked) == 1 and asked[0].endswith("/live/GET/api/keychain/*")
    permissions = [
        one
        for one in guarded.all("AWS::Lambda::Permission")
        if one.stack == "Api" and "apigateway" in str(as_list(one.properties["Principal"]))
    ]
    assert len(permissions) == 1, "one for the whole API"


def test_code_of_playbooks_runs_where_no_route_leads_out(guarded: Templates) -> None:
    worker = guarded.function("noetl-staging-worker-python")
    where = worker.properties["VpcConfig"]
    subnets = {guarded.text(worker.stack, one).strip("<>").split(".")[1] for one in where["SubnetIds"]}
    tables = {
        one.properties["RouteTableId"]["Ref"]
        for one in guarded.all("AWS::EC2::SubnetRouteTableAssociation")
        if one.properties["SubnetId"]["Ref"] in subnets
    }
    routes = [
        one for one in guarded.all("AWS::EC2::Route") if one.properties["RouteTableId"].get("Ref") in tables
    ]
    assert len(subnets) == len(tables) == 2 and routes == []
    (group,) = (guarded.resource(guarded.text(worker.stack, one)) for one in where["SecurityGroupIds"])
    ports = [(one["FromPort"], one["ToPort"]) for one in group.properties["SecurityGroupEgress"]]
    assert ports == [(443, 443)]
    services = {str(one.properties["ServiceName"]) for one in guarded.all("AWS::EC2::VPCEndpoint")}
    for needed in ("sqs", "s3", "lambda"):
        assert any(needed in one for one in services), needed


def test_a_worker_of_code_cannot_find_results_that_it_was_not_given(guarded: Templates) -> None:
    """Its role reads objects by their name, which has the id of an execution and a digest; it lists none."""
    worker = guarded.function("noetl-staging-worker-python")
    actions = {action for action, _ in guarded.allowed(guarded.role_of(worker))}
    assert {"s3:GetObject", "dynamodb:GetItem"} < actions
    finding = ("s3:List", "dynamodb:Query", "dynamodb:Scan", "secretsmanager:")
    assert not [one for one in actions if one.startswith(finding)]


def test_the_bill_has_the_firewall_and_the_endpoints(guarded: Templates) -> None:
    lines = bill(Assembly.read(guarded.folder))
    assert lines["firewall"] == 9.0
    assert round(lines["endpoints"] / 7.3) == 7


@pytest.mark.parametrize(
    ("network", "problem"),
    [
        ({"code": "isolated"}, "needs egress endpoints or both"),
        ({"code": "isolated", "egress": "both"}, "workers.long, workers.fargate_kinds and containers off"),
    ],
)
def test_isolated_code_that_could_not_work_is_refused(network: dict[str, object], problem: str) -> None:
    staging = load_environment("staging")
    with pytest.raises(ConfigError, match=problem):
        replace(staging, network=replace(staging.network, **network))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "api", "problem"),
    [
        (
            "staging",
            {"auth": "jwt", "jwt_issuer": "https://i", "jwt_audience": ("a",), "waf": True},
            "need auth iam, not jwt",
        ),
        ("dev", {"auth": "iam", "reach": "private"}, "needs network.private_workers"),
        ("staging", {"auth": "iam", "reach": "private", "vpc_endpoint": "vpce"}, "is no id of an endpoint"),
        (
            "staging",
            {"auth": "iam", "reach": "private", "callers": ("8.8.8.0/24",)},
            "is a range of the internet",
        ),
        ("staging", {"auth": "iam", "callers": ("10.0.0.0/8",)}, "are for api.reach private"),
        ("staging", {"auth": "iam", "waf": True, "waf_rate": 1}, "waf_rate 1 is not between"),
    ],
)
def test_switches_that_cannot_work_are_refused(name: str, api: dict[str, object], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        replace(load_environment(name), api=ApiConfig(**api))  # type: ignore[arg-type]
