"""The web UI on AWS: private files, one origin with the API, the policy of `noetl serve`, sign-in at the environment's issuer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from infra.config import ConfigError
from infra.environments import load_environment
from infra.ui_config import UiConfig
from noetl.api.http.ui_files import content_policy
from tests.infra.extended import ACL, ISSUER, SIGN_IN, TOKENS
from tests.infra.templates import Place, Templates


@pytest.fixture(scope="module")
def web(extended: Templates) -> Templates:
    return extended


def distribution(web: Templates) -> dict[str, Any]:
    found: dict[str, Any] = web.one("AWS::CloudFront::Distribution").properties["DistributionConfig"]
    return found


def test_only_this_distribution_reads_the_files(web: Templates) -> None:
    bucket = next(one for one in web.all("AWS::S3::Bucket") if one.stack == "Web")
    assert set(bucket.properties["PublicAccessBlockConfiguration"].values()) == {True}
    policy = next(one for one in web.all("AWS::S3::BucketPolicy") if one.stack == "Web")
    allowed = [one for one in policy.properties["PolicyDocument"]["Statement"] if one["Effect"] == "Allow"]
    assert [(one["Principal"], one["Action"]) for one in allowed] == [
        ({"Service": "cloudfront.amazonaws.com"}, "s3:GetObject")
    ]
    source = web.text("Web", allowed[0]["Condition"]["StringEquals"]["AWS:SourceArn"])
    assert web.one("AWS::CloudFront::Distribution").id in source
    control = web.one("AWS::CloudFront::OriginAccessControl").properties["OriginAccessControlConfig"]
    assert (control["SigningBehavior"], control["SigningProtocol"]) == ("always", "sigv4")


def test_pages_and_api_have_one_origin_and_the_firewall_in_front(web: Templates) -> None:
    config = distribution(web)
    assert (config["WebACLId"], config["Aliases"]) == (ACL, ["noetl.example.com"])
    assert config["ViewerCertificate"]["MinimumProtocolVersion"] == "TLSv1.2_2021"
    (api,) = config["CacheBehaviors"]
    assert (api["PathPattern"], api["ViewerProtocolPolicy"]) == ("/api/*", "https-only")
    assert {"GET", "POST", "PUT", "PATCH", "DELETE"} < set(api["AllowedMethods"])
    # AWS's own policies: nothing is cached, and everything but the host reaches the API, the token included.
    assert api["CachePolicyId"] == "4135ea2d-6df8-44a3-9df3-4b5a84be39ad"
    assert api["OriginRequestPolicyId"] == "b689b0a8-53d0-40ab-baf2-68738e2966ac"
    origins = {one["Id"]: one for one in config["Origins"]}
    target = origins[api["TargetOriginId"]]
    assert ".execute-api." in web.text("Web", target["DomainName"])
    assert target["CustomOriginConfig"]["OriginProtocolPolicy"] == "https-only"


def test_the_page_may_send_requests_to_its_origin_and_the_issuer_alone(web: Templates) -> None:
    config = distribution(web)
    pages = policy_of(web, config["DefaultCacheBehavior"]["ResponseHeadersPolicyId"])
    security = pages.properties["ResponseHeadersPolicyConfig"]["SecurityHeadersConfig"]
    found = security["ContentSecurityPolicy"]["ContentSecurityPolicy"]
    assert found == content_policy(
        ["https://cognito-idp.eu-central-1.amazonaws.com", "https://acme.auth.eu-central-1.amazoncognito.com"]
    )
    assert security["StrictTransportSecurity"]["AccessControlMaxAgeSec"] >= 31_536_000
    answers = policy_of(web, config["CacheBehaviors"][0]["ResponseHeadersPolicyId"])
    of_api = answers.properties["ResponseHeadersPolicyConfig"]["SecurityHeadersConfig"]
    assert "sandbox" in of_api["ContentSecurityPolicy"]["ContentSecurityPolicy"]


def policy_of(web: Templates, reference: object) -> Place:
    return web.resource(web.text("Web", reference))


def test_the_page_gets_what_it_signs_in_with(web: Templates) -> None:
    ui = web.one("Custom::NoetlUi").properties
    assert json.loads(ui["SignIn"]) == {
        "issuer": ISSUER,
        "client_id": "noetl-ui",
        "scope": "openid noetl/read",
        "parameters": {},
        "authorization_endpoint": "https://acme.auth.eu-central-1.amazoncognito.com/oauth2/authorize",
        "token_endpoint": TOKENS,
    }
    migrate = web.function("noetl-dev-migrate")
    allowed = {
        pair for pair in web.allowed(web.role_of(migrate)) if "Web." in pair[1] and pair[0].startswith("s3:")
    }
    assert {action for action, _ in allowed} == {"s3:PutObject", "s3:DeleteObject", "s3:ListBucket"}
    assert {resource.partition(">")[2] for _, resource in allowed} == {"/ui/*", ""}


def test_paths_of_pages_are_answered_with_the_page_and_files_as_they_are(web: Templates) -> None:
    code = web.one("AWS::CloudFront::Function").properties["FunctionCode"]
    asked = [
        "/",
        "/ui",
        "/ui/",
        "/ui/executions/12",
        "/ui/favicon.svg",
        "/ui/assets/index-1.js",
        "/ui/a.b/c.js",
        "/ui/sign-in.json",
    ]
    script = f"""{code}
    const seen = {json.dumps(asked)}.map(uri => {{
      const found = handler({{ request: {{ uri, headers: {{}} }} }});
      return found.uri || found.statusCode + ' ' + found.headers.location.value;
    }});
    console.log(JSON.stringify(seen));"""
    done = subprocess.run(["node", "-e", script], capture_output=True, text=True, check=True)
    page = "/ui/index.html"
    assert json.loads(done.stdout) == [
        "302 /ui/",
        "302 /ui/",
        page,
        page,
        "/ui/favicon.svg",
        "/ui/assets/index-1.js",
        page,
        "/ui/sign-in.json",
    ]


def test_without_the_switch_there_is_no_distribution(dev: Path) -> None:
    assert "Web" not in Templates(dev, "Noetl-dev-").stacks


@pytest.mark.full
def test_a_ui_that_was_not_built_is_named(
    synthesise: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("infra.stacks.web.ui_folder", lambda: tmp_path)
    with pytest.raises(ConfigError, match=r"the web UI is not built .*make ui"):
        synthesise("dev", **SIGN_IN)


@pytest.mark.parametrize(
    ("context", "ui", "problem"),
    [
        ({}, UiConfig(client_id="a"), "ui needs auth jwt, and this environment has iam"),
        (SIGN_IN, UiConfig(), "ui needs the client_id"),
        (
            SIGN_IN,
            UiConfig(client_id="a", token_url="https://x/t"),
            "authorize_url and ui.token_url go together",
        ),
        (
            SIGN_IN,
            UiConfig(client_id="a", sign_out_url="http://x"),
            "sign_out_url 'http://x' is no https address",
        ),
        (SIGN_IN, UiConfig(client_id="a", domain_name="x.org"), "ui.domain_name and ui.certificate_arn"),
        (
            SIGN_IN,
            UiConfig(
                client_id="a", domain_name="x.org", certificate_arn="arn:aws:acm:eu-west-1:1:certificate/1"
            ),
            "is not in us-east-1",
        ),
        (SIGN_IN, UiConfig(client_id="a", web_acl_arn="arn:aws:wafv2:eu-west-1:1:x"), "no ARN of a web ACL"),
    ],
)
def test_hosting_that_cannot_work_is_refused(context: dict[str, str], ui: UiConfig, problem: str) -> None:
    base = {name: value for name, value in context.items() if name.startswith("jwt")}
    with pytest.raises(ConfigError, match=problem):
        replace(load_environment("dev", base), ui=ui)
