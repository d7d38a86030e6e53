"""The HTTP API: routes, authorizer, throttling and access logs. Beside CloudFront, all of Clarion that the internet reaches.

The API's own routes lead to its function, those that a network needs to the network's router.
"""

import json
from collections.abc import Iterator, Mapping

import jsii
from aws_cdk import Duration
from aws_cdk import aws_apigateway as rest
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_certificatemanager as certificates
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from clarion.networks import network
from clarion.networks.needs import Auth
from infra.config import EnvironmentConfig
from infra.findings import accept
from infra.retention import log_group

GET, POST, PUT, PATCH, DELETE = (
    apigateway.HttpMethod.GET,
    apigateway.HttpMethod.POST,
    apigateway.HttpMethod.PUT,
    apigateway.HttpMethod.PATCH,
    apigateway.HttpMethod.DELETE,
)
OF_ONE = "/v1/subscriptions/{subscription_id}"
ROUTES = {
    "/v1/subscriptions": [POST, DELETE, GET],
    "/v1/subscriptions/rules": [PUT, POST, DELETE],
    OF_ONE: [GET, PATCH],
    f"{OF_ONE}/deliveries": [GET],
    f"{OF_ONE}/token": [PUT],
    f"{OF_ONE}/proof": [POST],
    f"{OF_ONE}/proof/request": [POST],
    "/v1/notify": [POST],
}
PREFLIGHT = "/{proxy+}"
"""Any path: with OPTIONS, what browsers ask before a page's request."""
PREFLIGHT_KEPT = Duration.hours(1)
PAGE = "/docs"
OPEN_ROUTES = {
    "/v1/auth/challenges": [POST],
    "/v1/auth/tokens": [POST],
    "/openapi.json": [GET],
    PAGE: [GET],
}
"""How one gets a token, and what the API is."""


def client_routes(environment: EnvironmentConfig) -> dict[str, list[apigateway.HttpMethod]]:
    """The methods by path that the API's own function answers to clients: whatever the network, and of the networks that are deployed."""
    found = {path: [*methods] for path, methods in ROUTES.items()}
    for route in (route for name in environment.networks for route in network(name).needs.api_routes):
        found.setdefault(route.path, []).append(apigateway.HttpMethod[route.method])
    return found


def open_routes(environment: EnvironmentConfig) -> dict[str, list[apigateway.HttpMethod]]:
    """The API's own methods by path that are reached without a token."""
    return {path: methods for path, methods in OPEN_ROUTES.items() if environment.api.serve_docs or path != PAGE}


def public_paths(environment: EnvironmentConfig) -> tuple[str, ...]:
    """Whose answers are the same for everybody."""
    routes = (route for name in environment.networks for route in network(name).needs.routes)
    of_networks = (
        one.path for one in routes if one.method == "GET" and one.auth is Auth.PUBLIC and "{" not in one.path
    )
    return (*(path for path, methods in open_routes(environment).items() if methods == [GET]), *of_networks)


def server_routes(environment: EnvironmentConfig) -> set[str]:
    """Those of networks' servers, by what the stage calls them."""
    routes = (route for name in environment.networks for route in network(name).needs.routes)
    return {f"{route.method} {route.path}" for route in routes if route.auth is Auth.SERVER}


WHY_OPEN = {
    Auth.SERVER: "The network's router asks the server who it is",
    Auth.PUBLIC: "The network shows it to anybody",
}
ACCESS_LOG = {
    "at": "$context.requestTimeEpoch",
    "request_id": "$context.requestId",
    "source_ip": "$context.identity.sourceIp",
    "route": "$context.routeKey",
    "status": "$context.status",
    "latency_ms": "$context.responseLatency",
    "integration_error": "$context.integrationErrorMessage",
    "authorizer_error": "$context.authorizer.error",
}


@jsii.implements(apigateway.IAccessLogSettings)
class AccessLog:
    """One JSON line a request. It names no header and no body, so neither credential nor push token."""

    def __init__(self, group: logs.ILogGroup) -> None:
        self._group = group

    @property
    def destination(self) -> apigateway.LogGroupLogDestination:
        return apigateway.LogGroupLogDestination(self._group)

    @property
    def format(self) -> rest.AccessLogFormat:
        return rest.AccessLogFormat.custom(json.dumps(ACCESS_LOG))


class HttpApi(Construct):
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: EnvironmentConfig,
        function: lambda_.IFunction,
        authorizer: lambda_.IFunction,
        routers: Mapping[str, lambda_.IFunction],
    ) -> None:
        """`routers` by network."""
        super().__init__(scope, construct_id)
        self._environment = environment
        self.domain = self._domain()
        self.api = apigateway.HttpApi(
            self,
            "Api",
            api_name=f"{environment.prefix}api",
            create_default_stage=False,
            cors_preflight=self._cors(),
            # CloudFront reaches it under that name, also while a domain of its own is still there.
            disable_execute_api_endpoint=self.domain is not None and environment.api.per_address is None,
        )
        self.stage = self._stage()
        checked = _asked_each_time(authorizer)
        own = self._routes(function, checked)
        self._throttle({**own, **dict(self._routes_of_networks(routers, checked))})

    @property
    def url(self) -> str:
        return f"https://{self._environment.api.domain}" if self.domain else self.api.api_endpoint

    @property
    def address(self) -> str | None:
        """What the domain's name has to lead to, as an alias or CNAME record."""
        return self.domain.regional_domain_name if self.domain else None

    def _routes(
        self, function: lambda_.IFunction, checked: authorizers.HttpLambdaAuthorizer
    ) -> dict[str, apigateway.HttpRoute]:
        """Add the API's own; return those that are reached without a token, by what the stage calls them."""
        integration = integrations.HttpLambdaIntegration("Function", function)
        for path, methods in client_routes(self._environment).items():
            self.api.add_routes(path=path, methods=methods, integration=integration, authorizer=checked)
        return {**dict(self._open_routes(integration)), "$default": self._elsewhere(integration, checked)}

    def _routes_of_networks(
        self, routers: Mapping[str, lambda_.IFunction], checked: authorizers.HttpLambdaAuthorizer
    ) -> Iterator[tuple[str, apigateway.HttpRoute]]:
        """Add them; return those that are reached without a client's token, by what the stage calls them."""
        for name, router in routers.items():
            # One permission for all routes of a router: the template of the largest deployment has no room for one each.
            integration = integrations.HttpLambdaIntegration(
                f"{name.title()}Router", router, scope_permission_to_route=False
            )
            for path, method, auth in ((route.path, route.method, route.auth) for route in network(name).needs.routes):
                (route,) = self.api.add_routes(
                    path=path,
                    methods=[apigateway.HttpMethod[method]],
                    integration=integration,
                    authorizer=checked if auth is Auth.CLIENT else None,
                )
                if auth is not Auth.CLIENT:
                    accept(route, "APIG4", WHY_OPEN[auth])
                    yield f"{method} {path}", route

    def _open_routes(
        self, integration: integrations.HttpLambdaIntegration
    ) -> Iterator[tuple[str, apigateway.HttpRoute]]:
        preflight = {PREFLIGHT: [apigateway.HttpMethod.OPTIONS]} if self._environment.api.origins else {}
        for path, methods in {**open_routes(self._environment), **preflight}.items():
            for method in methods:
                (route,) = self.api.add_routes(path=path, methods=[method], integration=integration)
                accept(route, "APIG4", "Whoever comes here has no token yet, or only wants to read")
                yield f"{method.name} {path}", route

    def _elsewhere(
        self, integration: integrations.HttpLambdaIntegration, authorizer: authorizers.HttpLambdaAuthorizer
    ) -> apigateway.HttpRoute:
        """What no route is for comes to the API too, whose refusals are problem details."""
        return apigateway.HttpRoute(
            self,
            "Elsewhere",
            http_api=self.api,
            route_key=apigateway.HttpRouteKey.DEFAULT,
            integration=integration,
            authorizer=authorizer,
        )

    def _stage(self) -> apigateway.HttpStage:
        environment = self._environment
        group = log_group(self, "Log", name=f"/aws/apigateway/{environment.prefix}api", environment=environment)
        domain = apigateway.DomainMappingOptions(domain_name=self.domain) if self.domain else None
        return apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(rate_limit=environment.api.rate, burst_limit=environment.api.burst),
            access_log_settings=AccessLog(group),
            domain_mapping=domain,
        )

    def _cors(self) -> apigateway.CorsPreflightOptions | None:
        """API Gateway adds its headers to every answer, and takes none from the functions.

        Its route for whatever is no route would have preflights, too, which bear no token: so they have a route of their
        own (`PREFLIGHT`). https://docs.aws.amazon.com/apigateway/latest/developerguide/http-api-cors.html
        """
        environment = self._environment
        if not environment.api.origins:
            return None
        of_networks = [route.method for name in environment.networks for route in network(name).needs.routes]
        headers_of_networks = [each for name in environment.networks for each in network(name).needs.request_headers]
        own = [
            method.name
            for methods in (*client_routes(environment).values(), *OPEN_ROUTES.values())
            for method in methods
        ]
        return apigateway.CorsPreflightOptions(
            # Browsers write an origin without the slash of a URL.
            allow_origins=[str(origin).rstrip("/") for origin in environment.api.origins],
            allow_methods=[apigateway.CorsHttpMethod[name] for name in sorted({*own, *of_networks})],
            allow_headers=["authorization", "content-type", *headers_of_networks],
            expose_headers=["link", "retry-after"],
            max_age=PREFLIGHT_KEPT,
        )

    def _throttle(self, routes: Mapping[str, apigateway.HttpRoute]) -> None:
        """Give each of `routes` a share of its own, so that from there nobody uses up the rate of all clients.

        That of a route for servers is as large. The stage names them, which CloudFormation takes only once they are there.
        """
        api, stage = self._environment.api, self.stage.node.default_child
        if not isinstance(stage, apigateway.CfnStage):
            raise TypeError("CDK has made the stage of something else")
        of_anybody, of_servers = _share(api.open_rate, api.open_burst), _share(api.rate, api.burst)
        for_servers = server_routes(self._environment)
        stage.route_settings = {name: of_servers if name in for_servers else of_anybody for name in routes}
        self.stage.node.add_dependency(*routes.values())

    def _domain(self) -> apigateway.DomainName | None:
        """None if it is reached under API Gateway's name, or by CloudFront alone, which then has the domain."""
        api = self._environment.api
        by_cloudfront_alone = api.per_address is not None and not api.per_address.around
        if by_cloudfront_alone or api.domain is None or api.certificate_arn is None:
            return None
        certificate = certificates.Certificate.from_certificate_arn(self, "Certificate", api.certificate_arn)
        return apigateway.DomainName(
            self,
            "Domain",
            domain_name=api.domain,
            certificate=certificate,
            security_policy=apigateway.SecurityPolicy.TLS_1_2,
        )


def _share(rate: int, burst: int) -> dict[str, int]:
    return {"ThrottlingRateLimit": rate, "ThrottlingBurstLimit": burst}


def _asked_each_time(authorizer: lambda_.IFunction) -> authorizers.HttpLambdaAuthorizer:
    """Also about a request without a credential: a refusal is the function's to word.

    No answer is kept: a token that has just run out must not live on in a cache.
    """
    return authorizers.HttpLambdaAuthorizer(
        "Authorizer",
        authorizer,
        response_types=[authorizers.HttpLambdaResponseType.SIMPLE],
        identity_source=[],
        results_cache_ttl=Duration.seconds(0),
    )
