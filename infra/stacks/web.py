"""Web: the build of the UI in a bucket, and CloudFront in front of it and of the API, so that both have one origin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Unpack

import aws_cdk as cdk
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_iam as iam
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_s3_assets as s3_assets
from constructs import Construct

from noetl.api.http.ui_files import ASSETS, content_policy
from noetl.runtime.aws.ui_bucket import PREFIX, SIGN_IN
from noetl.runtime.server.ui_build import ui_folder

from ..config import ConfigError, Environment
from ..constructs import nag
from ..constructs.rest_api import ApiDoor
from ..shared import Platform
from ..stacks import StackArguments
from ..stacks.engine import EngineStack
from ..ui_config import UiConfig

ANSWERS = "default-src 'none'; sandbox; frame-ancestors 'none'"
"""The content security policy of answers of the API."""
_LEFT_OUT = ("*.br", "*.gz", ".vite")
"""CloudFront compresses by itself."""
_ACKNOWLEDGED = {
    "CFR1": "who may sign in is decided by the issuer, not by the country of an address",
    "CFR3": "requests of the API are in its own log; the rest are files of a public build",
    "CFR4": "the name cloudfront.net has CloudFront's own certificate; ui.domain_name sets the minimum version of TLS",
}
_CODE = """\
var files = %s;
function handler(event) {
  var request = event.request;
  if (request.uri === '/' || request.uri === '/ui') {
    return { statusCode: 302, statusDescription: 'Found', headers: { location: { value: '/ui/' } } };
  }
  if (request.uri.indexOf('/ui/') === 0) {
    var name = request.uri.slice(4);
    if (name.indexOf('%s') !== 0 && files.indexOf(name) < 0) request.uri = '/ui/index.html';
  }
  return request;
}
"""
"""Files are answered as they are, pages with index.html: as `noetl serve` does (api/http/ui_files.py)."""


class WebStack(cdk.Stack):
    """``url``: where people open the UI."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        platform: Platform,
        ui: UiConfig,
        engine: EngineStack,
        api: ApiDoor,
        **stack: Unpack[StackArguments],
    ) -> None:
        """Raises ConfigError where the UI is not built."""
        super().__init__(scope, id, **stack)
        config = platform.config
        build = _build()
        self._bucket = self._files(tls=not config.is_local)
        self._bring(build, ui, config, engine)
        distribution = self._distribution(build, ui, config, api)
        self.url = f"https://{ui.domain_name or distribution.distribution_domain_name}"
        cdk.CfnOutput(self, "UiAddress", value=f"{self.url}/ui/")
        cdk.CfnOutput(self, "UiRedirect", value=f"{self.url}/ui/enter")

    def _files(self, *, tls: bool) -> s3.Bucket:
        bucket = s3.Bucket(
            self,
            "Files",
            encryption=s3.BucketEncryption.S3_MANAGED,
            block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
            enforce_ssl=tls,
            minimum_tls_version=1.2 if tls else None,
            object_ownership=s3.ObjectOwnership.BUCKET_OWNER_ENFORCED,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        nag.acknowledge(bucket, "S1", "files of a public build, read by CloudFront alone")
        if not tls:
            nag.acknowledge(bucket, "S10", "an emulator on this machine has no certificate")
        return bucket

    def _bring(self, build: Path, ui: UiConfig, config: Environment, engine: EngineStack) -> None:
        """Let the function of migrations put the build into the bucket."""
        asset = s3_assets.Asset(self, "Build", path=str(build), exclude=list(_LEFT_OUT))
        policy = iam.Policy(
            self,
            "Bring",
            roles=[engine.migrate.role],
            statements=[
                iam.PolicyStatement(
                    actions=["s3:GetObject"], resources=[asset.bucket.arn_for_objects(asset.s3_object_key)]
                ),
                iam.PolicyStatement(
                    actions=["s3:PutObject", "s3:DeleteObject"],
                    resources=[self._bucket.arn_for_objects(f"{PREFIX}*")],
                ),
                iam.PolicyStatement(actions=["s3:ListBucket"], resources=[self._bucket.bucket_arn]),
            ],
        )
        name = self.get_logical_id(self._bucket.node.default_child)
        nag.acknowledge(
            policy, f"IAM5[Resource::<{name}.Arn>/{PREFIX}*]", "files of the build are named by their content"
        )
        issuer = config.api.jwt_issuer if config.api.auth == "jwt" else ""
        brought = cdk.CustomResource(
            self,
            "Ui",
            service_token=engine.provider.service_token,
            resource_type="Custom::NoetlUi",
            properties={
                "Bucket": asset.s3_bucket_name,
                "Key": asset.s3_object_key,
                "Digest": asset.asset_hash,
                "Files": self._bucket.bucket_name,
                "SignIn": json.dumps(ui.sign_in(issuer), sort_keys=True),
            },
        )
        brought.node.add_dependency(policy)

    def _distribution(
        self, build: Path, ui: UiConfig, config: Environment, api: ApiDoor
    ) -> cloudfront.Distribution:
        certificate = ui.certificate_arn and acm.Certificate.from_certificate_arn(
            self, "Certificate", ui.certificate_arn
        )
        made = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"NoETL {config.name}: the web UI, and the API below /api",
            default_behavior=self._pages(build, ui, config),
            additional_behaviors={
                "/api/*": cloudfront.BehaviorOptions(
                    origin=origins.HttpOrigin(
                        api.host,
                        protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
                        origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
                    ),
                    viewer_protocol_policy=_protocol(config, cloudfront.ViewerProtocolPolicy.HTTPS_ONLY),
                    allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
                    cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
                    # API Gateway finds the API by the host, which is its own and not that of the page.
                    origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
                    # An answer that a browser opens as a page can do nothing with what this origin keeps.
                    response_headers_policy=self._headers("Answers", f"{config.prefix}-ui-api", ANSWERS),
                )
            },
            certificate=certificate or None,
            domain_names=[ui.domain_name] if ui.domain_name else None,
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021 if certificate else None,
            http_version=cloudfront.HttpVersion.HTTP2_AND_3,
            price_class=cloudfront.PriceClass.PRICE_CLASS_100,
            web_acl_id=ui.web_acl_arn or None,
        )
        for rule, reason in _ACKNOWLEDGED.items():
            nag.acknowledge(made, rule, reason)
        if not ui.web_acl_arn:
            nag.acknowledge(
                made, "CFR2", "ui.web_acl_arn puts a firewall in front, where the account has one (ADR 83)"
            )
        return made

    def _pages(self, build: Path, ui: UiConfig, config: Environment) -> cloudfront.BehaviorOptions:
        names = sorted(one.name for one in build.iterdir() if one.is_file() and not _is_left_out(one))
        names.append(SIGN_IN)
        function = cloudfront.Function(
            self,
            "Pages",
            function_name=f"{config.prefix}-ui",
            comment="Pages of the UI are index.html",
            runtime=cloudfront.FunctionRuntime.JS_2_0,
            code=cloudfront.FunctionCode.from_inline(_CODE % (json.dumps(names), ASSETS)),
        )
        policy = content_policy(ui.origins(config.api.jwt_issuer) if config.api.auth == "jwt" else ())
        return cloudfront.BehaviorOptions(
            origin=origins.S3BucketOrigin.with_origin_access_control(self._bucket),
            viewer_protocol_policy=_protocol(config, cloudfront.ViewerProtocolPolicy.REDIRECT_TO_HTTPS),
            cache_policy=cloudfront.CachePolicy.CACHING_OPTIMIZED,
            response_headers_policy=self._headers("Headers", f"{config.prefix}-ui", policy),
            compress=True,
            function_associations=[
                cloudfront.FunctionAssociation(
                    function=function, event_type=cloudfront.FunctionEventType.VIEWER_REQUEST
                )
            ],
        )

    def _headers(self, id: str, name: str, policy: str) -> cloudfront.ResponseHeadersPolicy:
        """Return the headers that `noetl serve` sends, and that of strict TLS."""
        return cloudfront.ResponseHeadersPolicy(
            self,
            id,
            response_headers_policy_name=name,
            security_headers_behavior=cloudfront.ResponseSecurityHeadersBehavior(
                content_security_policy=cloudfront.ResponseHeadersContentSecurityPolicy(
                    content_security_policy=policy, override=True
                ),
                content_type_options=cloudfront.ResponseHeadersContentTypeOptions(override=True),
                referrer_policy=cloudfront.ResponseHeadersReferrerPolicy(
                    referrer_policy=cloudfront.HeadersReferrerPolicy.NO_REFERRER, override=True
                ),
                strict_transport_security=cloudfront.ResponseHeadersStrictTransportSecurity(
                    access_control_max_age=cdk.Duration.days(365), include_subdomains=False, override=True
                ),
            ),
            custom_headers_behavior=cloudfront.ResponseCustomHeadersBehavior(
                custom_headers=[
                    cloudfront.ResponseCustomHeader(
                        header="Cross-Origin-Opener-Policy", value="same-origin", override=True
                    )
                ]
            ),
        )


def _build() -> Path:
    folder = ui_folder()
    if not (folder / "index.html").is_file():
        raise ConfigError(
            f"ui: the web UI is not built ({folder} has no index.html): run `make ui`, or leave `ui` out of the environment"
        )
    return folder


def _protocol(
    config: Environment, wanted: cloudfront.ViewerProtocolPolicy
) -> cloudfront.ViewerProtocolPolicy:
    """An emulator on this machine has no certificate."""
    return cloudfront.ViewerProtocolPolicy.ALLOW_ALL if config.is_local else wanted


def _is_left_out(file: Path) -> bool:
    return file.suffix in (".br", ".gz")
