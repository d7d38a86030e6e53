"""What each network needs of the account, as `clarion.networks.needs` states it: tables, functions, routes, grants."""

import json
from collections.abc import Iterator, Mapping

from aws_cdk import Duration, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as events_targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sqs as sqs

from clarion.channels import CHANNELS, Channel
from clarion.messages import CommandMessage
from clarion.networks import network
from clarion.networks.needs import HOURLY, Auth, Function, Grant, Needs, Target
from infra.functions import ComponentFunction, Foundation, app_names, given
from infra.permissions import allow, allow_key
from infra.tables import ClarionTables


class RouterFunction(ComponentFunction):
    """Answers a network's routes. Servers that it knows by themselves, and anybody, come to it unchecked."""

    def __init__(self, scope: Stack, network_name: str, handler: str, *, foundation: Foundation) -> None:
        api, origin = foundation.environment.api, foundation.data.secrets.required_origin
        super().__init__(
            scope,
            f"{network_name.title()}Router",
            name=function_name(network_name, Function.ROUTER),
            foundation=foundation,
            handler=handler,
            size=api.size,
            settings={
                **network_settings(foundation, network_name, Function.ROUTER),
                **_client_settings(foundation, network_name),
                **_server_settings(foundation, network_name),
                **given(origin_secret_id=origin),
            },
            reserved=api.reserved,
        )
        _allow(self, network_name, Function.ROUTER, origin)


class WorkerFunction(ComponentFunction):
    """Handles a network's commands."""

    def __init__(self, scope: Stack, network_name: str, handler: str, *, foundation: Foundation) -> None:
        consumer, pair = foundation.environment.commands, foundation.queues.commands[network_name]
        settings = {
            **network_settings(foundation, network_name, Function.WORKER),
            "queue_url": pair.queue.queue_url,
            "dead_letter_url": pair.dead.queue_url,
            "max_receives": str(consumer.receives),
        }
        super().__init__(
            scope,
            f"{network_name.title()}Worker",
            name=function_name(network_name, Function.WORKER),
            foundation=foundation,
            handler=handler,
            size=consumer.size,
            settings=settings,
            # Its own orders are handled by itself.
            feeds_itself=Target.COMMANDS in _targets(network_name, Function.WORKER),
        )
        self.consume(pair.queue, consumer)
        self.allow_sending(pair.dead)
        _allow(self, network_name, Function.WORKER)
        if network(network_name).needs.hourly:
            self._tick(scope, network_name, pair.queue)

    def _tick(self, scope: Stack, network_name: str, queue: sqs.IQueue) -> None:
        """https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-run-lambda-schedule.html"""
        message = CommandMessage(network=network_name, content=HOURLY).to_json()
        target = events_targets.SqsQueue(queue, message=events.RuleTargetInput.from_object(json.loads(message)))
        events.Rule(
            scope,
            f"{network_name.title()}Hourly",
            rule_name=f"{self.foundation.environment.prefix}{network_name}-hourly",
            schedule=events.Schedule.rate(Duration.hours(1)),
            targets=[target],
        )


def function_name(network_name: str, function: Function) -> str:
    """Below the deployment's prefix."""
    return f"{network_name}-{function}"


def functions_of(network_name: str) -> Iterator[tuple[Function, str]]:
    """Those that the network has, each with its handler. Raises `ValueError` for routes without a router."""
    needs = network(network_name).needs
    if needs.routes:
        if needs.router is None:
            raise ValueError(f"{network_name} has routes, but no router")
        yield Function.ROUTER, needs.router
    if needs.worker is not None:
        yield Function.WORKER, needs.worker


def add_functions(scope: Stack, network_name: str, *, foundation: Foundation) -> Mapping[Function, ComponentFunction]:
    kinds = {Function.ROUTER: RouterFunction, Function.WORKER: WorkerFunction}
    return {
        function: kinds[function](scope, network_name, handler, foundation=foundation)
        for function, handler in functions_of(network_name)
    }


def _targets(network_name: str, function: Function) -> set[Target]:
    return {send.target for send in network(network_name).needs.sends if function in send.by}


def network_settings(foundation: Foundation, network_name: str, function: Function) -> dict[str, str]:
    """As `clarion.networks.settings` reads them."""
    stack, queues, targets = Stack.of(foundation.queues), foundation.queues, _targets(network_name, function)
    secrets = readable_secrets(foundation, network_name, function)
    settings = {
        "network": network_name,
        "table_prefix": foundation.settings["table_prefix"],
        **given(secrets=stack.to_json_string(secrets) if secrets else None),
        **_options(foundation, network_name),
    }
    if Target.ENVELOPES in targets:
        settings["envelopes_queue_url"] = queues.envelopes.queue.queue_url
    if Target.PUSHES in targets:
        urls = {channel: queue.queue_url for channel, queue in queues.of_network(network_name).items()}
        settings["push_queues"] = stack.to_json_string(urls)
    if Target.COMMANDS in targets:
        settings["command_queue_url"] = queues.commands[network_name].queue.queue_url
    if Target.CLEANUP in targets:
        settings["cleanup_queue_url"] = queues.cleanup.queue.queue_url
    if Target.EVENTS in targets:
        settings |= foundation.settings
    return settings


def _options(foundation: Foundation, network_name: str) -> dict[str, str]:
    """What the deployment says of the network, and whom to trust where it reaches out to what is named there."""
    environment = foundation.environment
    options = environment.options_of(network_name)
    return {"options": options, **given(ca_file=environment.providers.ca_file)} if options else {}


def _client_settings(foundation: Foundation, network_name: str) -> dict[str, str]:
    """What a router with routes for clients reads of them."""
    if not _is_called_by(Auth.CLIENT, network_name):
        return {}
    environment = foundation.environment
    return {
        **environment.api.allowance.as_settings(),
        "apps": json.dumps(app_names(foundation)),
        "first_app": environment.apps[0].name,
        "environment": environment.api.apns_environment,
        **given(token_proof=environment.api.token_proof),
    }


def _server_settings(foundation: Foundation, network_name: str) -> dict[str, str]:
    """What a router with routes for servers that register devices reads of them."""
    pushes = Target.PUSHES in _targets(network_name, Function.ROUTER)
    if not (pushes and _is_called_by(Auth.SERVER, network_name)):
        return {}
    environment = foundation.environment
    reached = {
        channel: [app for app in environment.apps if CHANNELS[channel].provider in app.providers]
        for channel in environment.channels
    }
    android, of_token = reached.get(Channel.FCM), environment.api.pushes_per_token_per_minute
    return {
        **environment.api.servers.as_settings(),
        **given(pushes_per_token_per_minute=str(of_token) if of_token else None),
        "apns_apps": json.dumps({app.bundle_id: app.name for app in reached.get(Channel.APNS, ())}),
        **given(fcm_app=android[0].name if android else None),
    }


def _is_called_by(auth: Auth, network_name: str) -> bool:
    return any(route.auth is auth for route in network(network_name).needs.routes)


def _allow(who: ComponentFunction, network_name: str, function: Function, *more_secrets: str | None) -> None:
    """What is stated for it, exactly."""
    allow_network(who, who.foundation, network_name, function)
    who.allow_secrets(*readable_secrets(who.foundation, network_name, function).values(), *more_secrets)


def readable_secrets(foundation: Foundation, network_name: str, function: Function) -> dict[str, str]:
    """By their names in the network, the ids of those that it may read."""
    servers = network(network_name).needs.server_secrets
    secrets = foundation.data.secrets.networks[network_name]
    return {name: each for name, each in secrets.items() if function is Function.SERVER or name not in servers}


def allow_network(who: iam.IGrantable, foundation: Foundation, network_name: str, function: Function) -> None:
    """What is stated for it, but for secrets."""
    _allow_tables(who, foundation, network(network_name).needs, function)
    for target in sorted(_targets(network_name, function)):
        _allow_sending(who, foundation, network_name, target)


def _allow_tables(who: iam.IGrantable, foundation: Foundation, needs: Needs, function: Function) -> None:
    granted = [grant for grant in needs.grants if function in grant.by]
    for grant in granted:
        allow_table(who, foundation.data.tables, grant)
    if granted:
        allow_key(who, foundation.data.key, "dynamodb")


def allow_table(who: iam.IGrantable, tables: ClarionTables, grant: Grant) -> None:
    """What is granted to do with one table."""
    name, _, index = grant.table.partition("/")
    arn = tables.by_name[name]
    allow(who, f"dynamodb: {' '.join(grant.actions)}", f"{arn}/{index}" if index else arn)


def _allow_sending(who: iam.IGrantable, foundation: Foundation, network_name: str, target: Target) -> None:
    queues = foundation.queues
    match target:
        case Target.ENVELOPES:
            fed = [queues.envelopes.queue]
        case Target.PUSHES:
            fed = list(queues.of_network(network_name).values())
        case Target.COMMANDS:
            fed = [queues.commands[network_name].queue]
        case Target.CLEANUP:
            fed = [queues.cleanup.queue]
        case Target.EVENTS:
            return foundation.allow_events(who)
    if fed:
        allow(who, "sqs: SendMessage", *(queue.queue_arn for queue in fed))
    return None
