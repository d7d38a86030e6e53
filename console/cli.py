"""`clarion COMMAND …`: the words of the command line, and how its errors end."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import click

from clarion.channels import Channel
from clarion.decisions import Environment, PushDecision
from console import deployment, explain, export_rules, mute, redrive, send_test, status, why
from console.doctor.examination import examine
from console.doctor.plan import DeploymentPlan
from console.faults import AwsError, Exit, discreet, explained
from console.options import Ago, Hex, Instant, options, yes_option
from console.output import print_error, show
from console.simplex.commands import simplex
from console.walletconnect.commands import walletconnect
from console.zulip.commands import zulip

ASKED_FOR = "-"
"""In place of a token."""
HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}

_client = click.option("--client", type=Hex(), help="Only of this client: its public key.")
_channel = click.argument("channel", type=click.Choice([str(one) for one in Channel]))


@click.group(
    context_settings=HELP, epilog="Exit codes: 0 well; 1 done, but not well; 2 not understood or not confirmed; 3 AWS."
)
def clarion() -> None:
    """Look at a Clarion deployment, find out why, and set it right.

    Account and region are those of the usual AWS settings (AWS_PROFILE, AWS_DEFAULT_REGION, …); all else is found
    there. No command ever shows a push token.
    """


@clarion.command("status", short_help="The funnel, the queues, what is in alarm.")
@options(
    click.option("--minutes", type=click.IntRange(1, 1440), default=60, show_default=True, help="Count so far back.")
)
def _status(*, minutes: int, stage: str | None, as_json: bool) -> Exit:
    """The funnel from envelopes to pushes, the queues, ingest's tasks, and what is in alarm."""
    found = status.look(deployment.find(stage), minutes)
    show(found, as_json=as_json)
    return Exit.UNWELL if found.troubles else Exit.WELL


@clarion.command("why", short_help="Decisions and attempts about one envelope.")
@options(
    click.option(
        "--envelope",
        "--statement",
        "envelope_id",
        type=Hex(),
        required=True,
        help="Its id (a statement's hash), with or without 0x.",
    ),
    _client,
    click.option("--since", type=Ago(), default="24h", show_default=True, help="Look so far back: 30m, 24h, 7d."),
    click.option("--from", "start", type=Instant(), help="Look back to this time (UTC) instead."),
    click.option("--to", "end", type=Instant(), help="Leave aside what reached the lake later than this (UTC)."),
)
def _why(
    *,
    envelope_id: bytes,
    client: bytes | None,
    since: timedelta,
    start: datetime | None,
    end: datetime | None,
    stage: str | None,
    as_json: bool,
) -> Exit:
    """Each decision about one envelope and each attempt to push it, with times, from the lake.

    What it doesn't find there, `clarion-pipeline explain` looks for further back, if it is installed.
    """
    until = end or datetime.now(UTC)
    begin = start or until - since
    if begin >= until:
        raise click.UsageError("--from lies after --to")
    here = deployment.find(stage)
    found = why.ask(here, envelope_id, client, begin, until)
    if found.traces:
        show(found, as_json=as_json)
        return Exit.WELL
    further = why.look_further(here, found, explain.words(here, envelope_id, client, until), as_json=as_json)
    show(further, as_json=as_json)
    return Exit.WELL if further.explained else Exit.UNWELL


@clarion.command("page", short_help="The deployment as a page in a browser.")
@options(
    click.option("--port", type=click.IntRange(0, 65535), default=0, help="Of 127.0.0.1; by default a free one."),
)
def _page(*, port: int, stage: str | None, as_json: bool) -> Exit:
    """Show each item on its way, and what `status` says, on a page in a browser on this machine, until Ctrl-C.

    It changes nothing. While nobody looks at it, it asks AWS for nothing.
    """
    from console.page import command  # noqa: PLC0415 - no other command needs a web server, which takes time to import

    command.serve(deployment.find(stage), port, as_json=as_json)
    return Exit.WELL


@clarion.command("redrive", short_help="Move dead letters back into their queue.")
@options(
    click.argument("queue", metavar="QUEUE"),
    click.option("--per-second", type=click.IntRange(1, 500), help="At most so many; by default as SQS likes."),
    click.option("--dry-run", is_flag=True, help="Only count."),
    yes_option,
)
def _redrive(
    *,
    queue: str,
    per_second: int | None,
    dry_run: bool,
    yes: bool,
    stage: str | None,
    as_json: bool,
) -> Exit:
    """Move the dead letters of QUEUE, named as `clarion status` names it, back into it. Mend their cause first."""
    here = deployment.find(stage)
    if queue not in (names := [one.name for one in here.queues]):
        raise click.UsageError(f"QUEUE is none of {', '.join(names)}")
    found = redrive.redrive(here, queue, per_second, dry_run=dry_run, yes=yes)
    show(found, as_json=as_json)
    return Exit.UNWELL if found.left and not found.done else Exit.WELL


@clarion.command("send-test", short_help="Push to one device by the live way.")
@options(
    click.argument("token", metavar="TOKEN"),
    click.option("--channel", type=click.Choice([str(one) for one in send_test.TESTED]), required=True),
    click.option("--app", help="One of the environment's apps; by default the first."),
    click.option("--sandbox", is_flag=True, help="The token is of a development build."),
    click.option(
        "--wait", type=click.IntRange(1, 3600), default=send_test.WAIT_SECONDS, show_default=True, help="Seconds."
    ),
    yes_option,
)
def _send_test(
    *,
    token: str,
    channel: str,
    app: str | None,
    sandbox: bool,
    wait: int,
    yes: bool,
    stage: str | None,
    as_json: bool,
) -> Exit:
    """Push to one device by the live queue, function and secret, and wait for the outcome.

    With - for TOKEN it is asked for, or read from standard input, and stays out of the shell's history.
    """
    device = _device(token, channel, app, sandbox=sandbox)
    found = send_test.send_test(deployment.find(stage), device, wait, send_test.POLL_SECONDS, yes=yes)
    show(found, as_json=as_json)
    return Exit.WELL if found.decision is PushDecision.DELIVERED else Exit.UNWELL


def _device(token: str, channel: str, app: str | None, *, sandbox: bool) -> send_test.TestDevice:
    environment = Environment.SANDBOX if sandbox else Environment.PRODUCTION
    try:
        return send_test.TestDevice.of(_read(token), Channel(channel), app, environment)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _read(token: str) -> str:
    if token != ASKED_FOR:
        return token
    if sys.stdin.isatty():
        return str(click.prompt("Token", hide_input=True, err=True)).strip()
    return sys.stdin.readline().strip()


@clarion.command("doctor", short_help="What is left to do until all of it works.")
@options(
    click.option(
        "--templates",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="What is to be deployed: a folder of `cdk synth`, as `make doctor` makes it. Without it, only what is "
        "deployed is looked at.",
    ),
    click.option("--try-providers", is_flag=True, help="Ask APNs' sandbox and FCM whether they take our credentials."),
    click.option(
        "--send-test",
        "channel",
        type=click.Choice([str(one) for one in send_test.TESTED]),
        help="Push to a device by this channel, too; its token is asked for.",
    ),
    click.option("--sandbox", is_flag=True, help="That token is of a development build."),
)
def _doctor(
    *,
    templates: Path | None,
    try_providers: bool,
    channel: str | None,
    sandbox: bool,
    stage: str | None,
    as_json: bool,
) -> Exit:
    """What stands between the account and a working deployment, and what to do about it.

    Changes nothing, and pushes to nobody but whom --send-test names.
    """
    plan = DeploymentPlan.read(templates) if templates else None
    if plan and stage not in {None, plan.stage}:
        raise click.UsageError(f"--templates are of the stage {plan.stage}")
    device = _device(ASKED_FOR, channel, None, sandbox=sandbox) if channel else None
    found = examine(plan, stage, try_providers=try_providers, device=device)
    show(found, as_json=as_json)
    return Exit.UNWELL if found.todos else Exit.WELL


@clarion.command("mute")
@options(_channel, yes_option)
def _mute(*, channel: str, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Stop a channel's pushes; its messages wait in their queue. POST /v1/notify goes on."""
    show(mute.switch(deployment.find(stage), Channel(channel), muted=True, yes=yes), as_json=as_json)
    return Exit.WELL


@clarion.command("unmute")
@options(_channel, yes_option)
def _unmute(*, channel: str, yes: bool, stage: str | None, as_json: bool) -> Exit:
    """Let a muted channel push again, beginning with what waits."""
    show(mute.switch(deployment.find(stage), Channel(channel), muted=False, yes=yes), as_json=as_json)
    return Exit.WELL


@clarion.command("export-rules", short_help="All rules in force, as JSON lines.")
@options(_client)
def _export_rules(*, client: bytes | None, stage: str | None, as_json: bool) -> Exit:  # noqa: ARG001 - it prints JSON anyway
    """All subscriptions and their rules in force as JSON lines, a line for each rule; with or without --json."""
    export_rules.export(deployment.find(stage), client)
    return Exit.WELL


clarion.add_command(zulip)
clarion.add_command(walletconnect)
clarion.add_command(simplex)


def main(words: Sequence[str] | None = None) -> int:
    """The exit code; see `console.faults`."""
    try:
        return int(clarion.main(words, prog_name="clarion", standalone_mode=False) or Exit.WELL)
    except click.UsageError as error:
        usage = f"{error.ctx.get_usage()}\n" if error.ctx else ""
        print_error(f"{usage}{discreet(error.format_message())}")
        return Exit.USAGE
    except click.ClickException as error:
        print_error(error.format_message())
        return error.exit_code
    except click.Abort:
        print_error("interrupted")
        return Exit.INTERRUPTED
    except AwsError as error:
        print_error(explained(error))
        return Exit.TROUBLE


if __name__ == "__main__":
    sys.exit(main())
