"""What an idle deployment costs: `make idle` writes the tables of docs/operations.md anew."""

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from bench.idle_bill import (
    ADDRESS_HOUR,
    ALARM_METRIC,
    GIGABYTE_HOUR,
    HOURS,
    METRIC,
    PROCESSOR_HOUR,
    QUEUE_POLLS,
    SECRET,
    DeployedStacks,
    Item,
    alarm_metrics,
    items,
    recorded_bytes,
    setting,
    stream_reads,
    times,
)
from bench.markdown import inserted, table_row
from bench.rules_stream import month_dollars
from clarion.channels import Channel
from clarion.networks import SIMPLEX, STATEMENTS, WALLETCONNECT, XMTP, ZULIP
from infra.app import define_alone
from infra.config import EnvironmentConfig
from infra.environments import DEV, PROD
from ingest.counts import PERIOD
from ingest.sources.simplex.news import ENDED_POLL_SECONDS, POLL_SECONDS
from pipeline.prices import GIGABYTE_SECOND, INVOCATION, LOG_BYTE, READ_UNIT, SQS_REQUEST

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
HEAD = ["", "`prod`", "dollars", "`dev`", "dollars"]
HEAD_OF_ADDED = ["with", "there is more", "dollars"]
FIREWALL, FIREWALL_RULE = 5.00, 1.00
BALANCER_HOUR = 0.0225
"""Of a network load balancer; what it passes on is billed beside it, at 0.006 for each unit and hour."""
SCALING_ALARMS = 4
"""Which target tracking makes, for more tasks and for fewer: by processors, and by connections."""
XMTP_METRICS = 4
XMTP_RUN_S, XMTP_GIGABYTES, XMTP_QUERIES = 3, 0.5, 336
"""Of its worker, each hour: reckoned with nobody registered."""


def table(deployed: Sequence[DeployedStacks]) -> list[str]:
    """A row for each item, with what each deployment has of it."""
    lines = [table_row(HEAD), table_row(["---", *["---", "--:"] * len(deployed)])]
    for of_each in zip(*map(items, deployed), strict=True):
        cells = (cell for item in of_each for cell in (item.amount, f"{item.dollars:.2f}"))
        lines.append(table_row([of_each[0].name, *cells]))
    totals = (cell for each in deployed for cell in ("", f"**{total(each):.2f}**"))
    return [*lines, table_row(["**together**", *totals])]


def total(deployed: DeployedStacks) -> float:
    """Of what the table states."""
    return sum(round(item.dollars, 2) for item in items(deployed))


class Extended(NamedTuple):
    """Production with one thing more."""

    xmtp: DeployedStacks
    zulip: DeployedStacks
    walletconnect: DeployedStacks
    webhook: DeployedStacks
    simplex: DeployedStacks


def table_of_added(prod: DeployedStacks, dev: DeployedStacks, extended: Extended) -> list[str]:
    """What an environment may have beside."""
    lines = [table_row(HEAD_OF_ADDED), table_row(["---", "---", "--:"])]
    for name, what, dollars in added(prod, dev, extended):
        lines.append(table_row([name, what, f"{dollars:.2f}"]))
    return lines


def added(prod: DeployedStacks, dev: DeployedStacks, extended: Extended) -> Iterator[Item]:
    (firewall,) = prod.all("AWS::WAFv2::WebACL")
    rules = len(firewall["Rules"])
    yield Item(
        "CloudFront in front of the API, as in `prod`",
        f"a web ACL at {FIREWALL:.2f}, {rules} rule at {FIREWALL_RULE:.2f}, a secret; CloudFront itself costs nothing idle",
        FIREWALL + rules * FIREWALL_RULE + SECRET,
    )
    busy, idle = (stream_reads(prod, f"stream_{pause}_seconds") for pause in ("poll", "idle"))
    yield Item(
        "whatever is published, in `prod`",
        f"the rules' stream is read every {setting(prod, 'stream_poll_seconds'):g} s while an envelope waits for a rule: "
        f"{busy / 1_000_000:.0f} million times at most",
        month_dollars(busy) - month_dollars(idle),
    )
    yield from _added_by_xmtp(prod, extended.xmtp)
    yield _added_by_zulip(prod, extended.zulip)
    yield _added_by_walletconnect(prod, extended.walletconnect)
    yield from _added_by_simplex(prod, extended.simplex)
    yield _added_by_channel(prod, extended.webhook)
    alarmed = alarm_metrics(prod) - alarm_metrics(dev)
    yield Item(
        "alarms in `dev` (`monitored`)", f"{alarmed} metrics, with production's channels", alarmed * ALARM_METRIC
    )


def _added_by_xmtp(prod: DeployedStacks, xmtp: DeployedStacks) -> Iterator[Item]:
    alarmed = alarm_metrics(xmtp) - alarm_metrics(prod)
    yield Item("XMTP", f"alarms on {alarmed} metrics", alarmed * ALARM_METRIC)
    sources = _more(prod, xmtp, "AWS::Lambda::EventSourceMapping")
    polled = sources * QUEUE_POLLS * SQS_REQUEST / 1_000_000
    yield Item("", "polling of its queue of commands", polled)
    yield Item(
        "",
        f"{XMTP_METRICS} recorded metrics: three of its worker's, and to how many nodes ingest is connected; their log lines",
        XMTP_METRICS * METRIC + _logged_by_ingest(prod),
    )
    run = INVOCATION + XMTP_RUN_S * XMTP_GIGABYTES * GIGABYTE_SECOND + XMTP_QUERIES * READ_UNIT / 2
    yield Item(
        "",
        f"its worker's {HOURS} runs of {XMTP_RUN_S} s (reckoned), {XMTP_QUERIES} queries of empty indexes each, at half a "
        "read unit",
        HOURS * run / 1_000_000,
    )


def _added_by_zulip(prod: DeployedStacks, zulip: DeployedStacks) -> Item:
    alarmed = alarm_metrics(zulip) - alarm_metrics(prod)
    secrets = _more(prod, zulip, "AWS::SecretsManager::Secret")
    what = f"alarms on {alarmed} metrics, a secret for the bouncer's keys"
    return Item("Zulip", what, alarmed * ALARM_METRIC + secrets * SECRET)


def _added_by_walletconnect(prod: DeployedStacks, walletconnect: DeployedStacks) -> Item:
    alarmed = alarm_metrics(walletconnect) - alarm_metrics(prod)
    what = (
        f"alarms on {alarmed} metrics, a secret for the server's keys, polling of its queue of commands, a recorded metric: "
        "to how many relays ingest is connected"
    )
    dollars = alarmed * ALARM_METRIC + _polled_and_kept(prod, walletconnect) + METRIC + _logged_by_ingest(prod)
    return Item("WalletConnect", what, dollars)


def _added_by_simplex(prod: DeployedStacks, simplex: DeployedStacks) -> Iterator[Item]:
    (balancer,) = simplex.all("AWS::ElasticLoadBalancingV2::LoadBalancer")
    zones = len(balancer["Subnets"])
    yield Item(
        "SimpleX",
        f"the balancer of its NTF server, at {BALANCER_HOUR} an hour, and an address in each of {zones} zones",
        HOURS * (BALANCER_HOUR + zones * ADDRESS_HOUR),
    )
    yield _ntf_tasks(simplex)
    alarmed = alarm_metrics(simplex) - alarm_metrics(prod)
    yield Item(
        "",
        f"alarms on {alarmed} metrics, and {SCALING_ALARMS} by which its tasks are scaled; two secrets; polling of its queue "
        "of commands; two recorded metrics: connections, and to how many servers ingest is connected",
        (alarmed + SCALING_ALARMS) * ALARM_METRIC
        + _polled_and_kept(prod, simplex)
        + 2 * METRIC
        + _logged_by_ingest(prod),
    )
    reads = prod.tasks * (times(POLL_SECONDS) + times(ENDED_POLL_SECONDS))
    yield Item(
        "",
        f"ingest's look for new queues every {POLL_SECONDS} s, and for ended ones every {ENDED_POLL_SECONDS:.0f} s: "
        f"{reads / 1_000_000:.1f} million queries, at half a read unit",
        reads * READ_UNIT / 2 / 1_000_000,
    )


def _ntf_tasks(simplex: DeployedStacks) -> Item:
    """As many as there are at least."""
    (scaled,) = simplex.all("AWS::ApplicationAutoScaling::ScalableTarget")
    (task,) = (each for each in simplex.all("AWS::ECS::TaskDefinition") if each["Family"].endswith("-ntf"))
    tasks, processors, gigabytes = scaled["MinCapacity"], int(task["Cpu"]) / 1024, int(task["Memory"]) / 1024
    hour = processors * PROCESSOR_HOUR + gigabytes * GIGABYTE_HOUR + ADDRESS_HOUR
    return Item(
        "", f"its {tasks} tasks of {processors:g} and {gigabytes:g} GB, with an address each", tasks * HOURS * hour
    )


def _added_by_channel(prod: DeployedStacks, webhook: DeployedStacks) -> Item:
    alarmed = alarm_metrics(webhook) - alarm_metrics(prod)
    queues = _more(prod, webhook, "AWS::Lambda::EventSourceMapping")
    dollars = alarmed * ALARM_METRIC + _polled_and_kept(prod, webhook)
    what = f"alarms on {alarmed} metrics, polling of {queues} queues, a secret for each app"
    return Item("a further channel with a held queue, such as the webhook", what, dollars)


def _polled_and_kept(prod: DeployedStacks, other: DeployedStacks) -> float:
    """What the further queues and secrets cost."""
    queues = _more(prod, other, "AWS::Lambda::EventSourceMapping")
    secrets = _more(prod, other, "AWS::SecretsManager::Secret")
    return queues * QUEUE_POLLS * SQS_REQUEST / 1_000_000 + secrets * SECRET


def _logged_by_ingest(prod: DeployedStacks) -> float:
    """Of a network that is followed: the lines that record to how many nodes its tasks are connected."""
    return prod.tasks * times(PERIOD) * recorded_bytes(STATEMENTS) * LOG_BYTE / 1_000_000


def _more(prod: DeployedStacks, other: DeployedStacks, kind: str) -> int:
    return len(other.all(kind)) - len(prod.all(kind))


def deployed(environment: EnvironmentConfig, **context: str) -> DeployedStacks:
    """With what the context adds."""
    stack = define_alone(environment.stage, context, builtin_cloud_formation_validation=False)
    return DeployedStacks.of(stack, environment)


def tables() -> list[list[str]]:
    """As docs/operations.md has them."""
    prod, dev = deployed(PROD), deployed(DEV)
    networks = (XMTP, ZULIP, WALLETCONNECT, SIMPLEX)
    xmtp, zulip, walletconnect, simplex = (deployed(PROD, networks=f"{STATEMENTS},{name}") for name in networks)
    channels = ",".join((*PROD.channels, Channel.WEBHOOK))
    webhook = deployed(PROD, channels=channels, webhook_url="https://push.example.org/clarion")
    return [table([prod, dev]), table_of_added(prod, dev, Extended(xmtp, zulip, walletconnect, webhook, simplex))]


def main() -> None:
    PAGE.write_text(reduce(inserted, tables(), PAGE.read_text()))


if __name__ == "__main__":
    main()
