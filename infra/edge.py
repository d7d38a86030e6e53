"""CloudFront in front of the API, with a limit for each address: the API's own throttles count all callers together.

Without it, whoever sends enough requests from one place uses up the rate of everybody. HTTP APIs can't have a web
application firewall of their own, so it stands at CloudFront. What it costs is in docs/operations.md.

CloudFront sends a secret header with each request, and the API's function answers nothing without it. Whoever learns the
address behind CloudFront gets no answer there, but still uses up the rate of everybody: API Gateway counts a request
before any function looks at it, and without a web application firewall nothing else could.
"""

import json
from collections.abc import Sequence

from aws_cdk import Duration, SecretValue, Stack
from aws_cdk import aws_certificatemanager as certificates
from aws_cdk import aws_cloudfront as cloudfront
from aws_cdk import aws_cloudfront_origins as origins
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_wafv2 as wafv2
from constructs import Construct

from clarion.networks import network
from infra.config import EnvironmentConfig
from infra.findings import accept
from infra.options import PerAddress

ORIGIN_HEADER = "x-clarion-origin"
"""As `api.requests` reads it."""
READ_TIMEOUT = Duration.seconds(30)
"""As long as API Gateway waits for the function."""
CACHED_ERRORS = (400, 403, 404, 405, 414, 500, 501, 502, 503, 504)
"""What CloudFront would keep for ten seconds, and give to the next client that asks for the same address;
https://docs.aws.amazon.com/AmazonCloudFront/latest/DeveloperGuide/HTTPStatusCodes.html"""
WINDOW_S = 60
REFUSAL = {
    "type": "urn:clarion:problem:too-many-requests",
    "title": "You have sent too many requests",
    "status": 429,
    "detail": "too many from this network address",
}
"""In the API's words; `api.problems` has the same for a client's own allowance.

Networks may have members of their own beside these: https://www.rfc-editor.org/rfc/rfc9457#section-3.2
"""


class Edge(Construct):
    """`public` are the paths whose answers are the same for everybody, and say themselves how long they may be kept."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentConfig,
        per_address: PerAddress,
        api_id: str,
        origin_secret: str,
        log_bucket: s3.IBucket,
        public: tuple[str, ...],
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._log_bucket = log_bucket
        self._origin = self._api_as_origin(api_id, origin_secret)
        self.limits = self._limits(per_address)
        self.distribution = self._distribution(public)

    @property
    def url(self) -> str:
        return f"https://{self._environment.api.domain or self.distribution.distribution_domain_name}"

    def _api_as_origin(self, api_id: str, secret: str) -> origins.HttpOrigin:
        stack = Stack.of(self)
        # CloudFormation fills it in, so that neither template nor code has it.
        value = SecretValue.secrets_manager(secret, json_field="secret").unsafe_unwrap()
        return origins.HttpOrigin(
            f"{api_id}.execute-api.{stack.region}.{stack.url_suffix}",
            custom_headers={ORIGIN_HEADER: value},
            protocol_policy=cloudfront.OriginProtocolPolicy.HTTPS_ONLY,
            origin_ssl_protocols=[cloudfront.OriginSslPolicy.TLS_V1_2],
            read_timeout=READ_TIMEOUT,
        )

    def _limits(self, per_address: PerAddress) -> wafv2.CfnWebACL:
        needs = {name: network(name).needs for name in self._environment.networks}
        by_servers = {name: (each.server_path, dict(each.refusal_members)) for name, each in needs.items()}
        paths = [path for path, _ in by_servers.values() if path]
        bodies = {"refusal": REFUSAL} | {name: REFUSAL | more for name, (path, more) in by_servers.items() if path}
        rules = [self._rule("per-address", "refusal", 0, per_address.requests_per_minute, _beside(paths))]
        for priority, (name, (path, _)) in enumerate(by_servers.items(), 1):
            if path:
                limit = per_address.server_requests_per_minute
                rules.append(self._rule(f"per-address-{name}", name, priority, limit, _matches(path)))
        acl = wafv2.CfnWebACL
        return acl(
            self,
            "Limits",
            name=f"{self._environment.prefix}limits",
            scope="CLOUDFRONT",
            default_action=acl.DefaultActionProperty(allow=acl.AllowActionProperty()),
            custom_response_bodies={
                name: acl.CustomResponseBodyProperty(content=json.dumps(body), content_type="APPLICATION_JSON")
                for name, body in bodies.items()
            },
            rules=rules,
            visibility_config=self._counted("limits"),
        )

    def _rule(
        self, name: str, body: str, priority: int, limit: int, counted: wafv2.CfnWebACL.StatementProperty | None
    ) -> wafv2.CfnWebACL.RuleProperty:
        """Refuses one address, in the words of `body`, beyond `limit` requests in a minute of those `counted`; None: all."""
        acl = wafv2.CfnWebACL
        too_many = acl.RateBasedStatementProperty(
            aggregate_key_type="IP", limit=limit, evaluation_window_sec=WINDOW_S, scope_down_statement=counted
        )
        answer = acl.CustomResponseProperty(
            response_code=429,
            custom_response_body_key=body,
            response_headers=[acl.CustomHTTPHeaderProperty(name="Retry-After", value=str(WINDOW_S))],
        )
        return acl.RuleProperty(
            name=name,
            priority=priority,
            statement=acl.StatementProperty(rate_based_statement=too_many),
            action=acl.RuleActionProperty(block=acl.BlockActionProperty(custom_response=answer)),
            visibility_config=self._counted(name),
        )

    def _counted(self, name: str) -> wafv2.CfnWebACL.VisibilityConfigProperty:
        return wafv2.CfnWebACL.VisibilityConfigProperty(
            cloud_watch_metrics_enabled=True,
            metric_name=f"{self._environment.prefix}{name}",
            sampled_requests_enabled=True,
        )

    def _distribution(self, public: tuple[str, ...]) -> cloudfront.Distribution:
        """By IPv4 alone, as the API itself: of IPv6, anybody has more addresses than a limit could count."""
        api = self._environment.api
        distribution = cloudfront.Distribution(
            self,
            "Distribution",
            comment=f"{self._environment.prefix}api",
            default_behavior=self._passed_on(),
            additional_behaviors={path: self._kept() for path in public},
            error_responses=[
                cloudfront.ErrorResponse(http_status=status, ttl=Duration.seconds(0)) for status in CACHED_ERRORS
            ],
            web_acl_id=self.limits.attr_arn,
            enable_ipv6=False,
            enable_logging=True,
            log_bucket=self._log_bucket,
            domain_names=[api.domain] if api.domain else None,
            certificate=self._certificate(),
            minimum_protocol_version=cloudfront.SecurityPolicyProtocol.TLS_V1_2_2021 if api.domain else None,
        )
        accept(distribution, "CFR1", "Phones are everywhere")
        if not api.domain:
            accept(distribution, "CFR4", "CloudFront's own name comes with a certificate that is fixed at TLS 1.0")
        return distribution

    def _passed_on(self) -> cloudfront.BehaviorOptions:
        """Without the name by which the client knows the API: API Gateway finds it by another.

        Preflights (OPTIONS) and the headers of pages' requests (`Origin`, `Access-Control-…`) pass as all others do.
        """
        return cloudfront.BehaviorOptions(
            origin=self._origin,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_ALL,
            cache_policy=cloudfront.CachePolicy.CACHING_DISABLED,
            origin_request_policy=cloudfront.OriginRequestPolicy.ALL_VIEWER_EXCEPT_HOST_HEADER,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
        )

    def _kept(self) -> cloudfront.BehaviorOptions:
        """Nothing of the request but its path and encoding is sent on, or is part of the key of an answer.

        So a page's origin doesn't reach the API here: once any may call the API, CloudFront lets every page read these.
        """
        anybody = cloudfront.ResponseHeadersPolicy.CORS_ALLOW_ALL_ORIGINS
        return cloudfront.BehaviorOptions(
            origin=self._origin,
            allowed_methods=cloudfront.AllowedMethods.ALLOW_GET_HEAD,
            cache_policy=cloudfront.CachePolicy.CACHING_OPTIMIZED,
            response_headers_policy=anybody if self._environment.api.origins else None,
            viewer_protocol_policy=cloudfront.ViewerProtocolPolicy.HTTPS_ONLY,
        )

    def _certificate(self) -> certificates.ICertificate | None:
        arn = self._environment.api.certificate_arn
        return certificates.Certificate.from_certificate_arn(self, "Certificate", arn) if arn else None


def _matches(path: str) -> wafv2.CfnWebACL.StatementProperty:
    """`path` is a regular expression."""
    acl = wafv2.CfnWebACL
    matches = acl.RegexMatchStatementProperty(
        field_to_match=acl.FieldToMatchProperty(uri_path={}),
        regex_string=path,
        text_transformations=[acl.TextTransformationProperty(priority=0, type="NONE")],
    )
    return acl.StatementProperty(regex_match_statement=matches)


def _beside(paths: Sequence[str]) -> wafv2.CfnWebACL.StatementProperty | None:
    """None if there are no such paths."""
    acl = wafv2.CfnWebACL
    others = [acl.StatementProperty(not_statement=acl.NotStatementProperty(statement=_matches(path))) for path in paths]
    if len(others) < 2:
        return next(iter(others), None)
    # An `and` has two statements at least.
    return acl.StatementProperty(and_statement=acl.AndStatementProperty(statements=others))
