"""AWS WAF in front of the API: addresses of ill repute, known attacks, and a rate for each address.

Bodies of this API are programs and data, which look like attacks: rules that judge a body only count.
"""

from __future__ import annotations

from aws_cdk import aws_wafv2 as waf
from constructs import Construct

from ..config import Environment

COUNTED = {
    "AWSManagedRulesCommonRuleSet": (
        "SizeRestrictions_BODY",
        "CrossSiteScripting_BODY",
        "EC2MetaDataSSRF_BODY",
        "GenericLFI_BODY",
        "GenericRFI_BODY",
    ),
    "AWSManagedRulesKnownBadInputsRuleSet": (),
    "AWSManagedRulesAmazonIpReputationList": (),
}
"""Groups of AWS, with those of their rules that count instead of blocking: a playbook is larger than 8 KiB, and holds addresses, paths and
markup."""


class Firewall(Construct):
    """``acl``: the web ACL, put in front of a stage of a REST API."""

    def __init__(self, scope: Construct, id: str, *, env: Environment, resource_arn: str) -> None:
        super().__init__(scope, id)
        groups = [_group(number, name, counted) for number, (name, counted) in enumerate(COUNTED.items())]
        self.acl = waf.CfnWebACL(
            self,
            "Acl",
            name=env.prefix,
            scope="REGIONAL",
            default_action=waf.CfnWebACL.DefaultActionProperty(allow={}),
            rules=[*groups, _rate(len(groups), env.api.waf_rate)],
            visibility_config=_visible("all"),
        )
        waf.CfnWebACLAssociation(
            self, "Association", resource_arn=resource_arn, web_acl_arn=self.acl.attr_arn
        )


def _group(number: int, name: str, counted: tuple[str, ...]) -> waf.CfnWebACL.RuleProperty:
    count = waf.CfnWebACL.RuleActionProperty(count={})
    overrides = [waf.CfnWebACL.RuleActionOverrideProperty(name=one, action_to_use=count) for one in counted]
    group = waf.CfnWebACL.ManagedRuleGroupStatementProperty(
        vendor_name="AWS", name=name, rule_action_overrides=overrides or None
    )
    return waf.CfnWebACL.RuleProperty(
        name=name,
        priority=number,
        statement=waf.CfnWebACL.StatementProperty(managed_rule_group_statement=group),
        override_action=waf.CfnWebACL.OverrideActionProperty(none={}),
        visibility_config=_visible(name),
    )


def _rate(number: int, limit: int) -> waf.CfnWebACL.RuleProperty:
    """Requests of one address in five minutes."""
    rate = waf.CfnWebACL.RateBasedStatementProperty(limit=limit, aggregate_key_type="IP")
    return waf.CfnWebACL.RuleProperty(
        name="rate",
        priority=number,
        statement=waf.CfnWebACL.StatementProperty(rate_based_statement=rate),
        action=waf.CfnWebACL.RuleActionProperty(block={}),
        visibility_config=_visible("rate"),
    )


def _visible(name: str) -> waf.CfnWebACL.VisibilityConfigProperty:
    return waf.CfnWebACL.VisibilityConfigProperty(
        cloud_watch_metrics_enabled=True, metric_name=name, sampled_requests_enabled=False
    )
