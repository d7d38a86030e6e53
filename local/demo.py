"""`make demo`: the product's story on the deployed stack, step by step; exit code 0 only if all went as it should.

    python -m local.demo [WORDS …]

With words, only the scenes are played whose titles have one of them.
"""

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Sequence
from subprocess import CalledProcessError
from typing import Any

import httpx
from rich.console import Console
from rich.json import JSON
from rich.panel import Panel
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from clarion.decisions import EnvelopeDecision, NotificationDecision, PushDecision
from clarion_client import Problem
from local.cast import Cast
from local.notifications import CallRefused
from local.provider import ReceivedPush
from local.scenes import Outcome, Scene, Unexpected
from local.simplex.client import CommandRefusedError
from local.simplex.codec import WireFault
from local.simplex.stream import ConnectionLostError
from local.story import STORY
from local.system import System, running
from local.walletconnect.identity import UnexpectedClaims
from local.walletconnect.wallet import WalletRefusal
from local.zulip_bouncer import BouncerRefusalError, BouncerUnavailableError

FAILURES = (
    *(Unexpected, CallRefused, TimeoutError, Problem, httpx.HTTPError),
    *(BouncerRefusalError, BouncerUnavailableError, CalledProcessError),
    *(WalletRefusal, UnexpectedClaims),
    *(CommandRefusedError, ConnectionLostError, WireFault),
)
_LONGEST = 44
"""Characters of a value that are shown of a push."""
_ORDER = {str(word): place for place, word in enumerate((*EnvelopeDecision, *NotificationDecision, *PushDecision), 1)}
_PLAIN_WIDTH = 110
"""Columns where the output is no terminal."""


class DemoStage:
    """Plays scenes on a console and keeps the score."""

    def __init__(self, console: Console, scenes: Sequence[Scene]) -> None:
        self._console, self._scenes = console, scenes
        self._score: list[tuple[Scene, Outcome | None]] = []

    @property
    def flawless(self) -> bool:
        return len(self._score) == len(self._scenes) and all(outcome for _, outcome in self._score)

    async def play(self, system: System) -> None:
        cast = Cast()
        with _progress(self._console) as progress:
            task = progress.add_task("", total=len(self._scenes))
            for number, scene in enumerate(self._scenes, 1):
                progress.update(task, description=f"{number} of {len(self._scenes)}  {scene.title}", advance=1)
                self._console.print(f"\n[bold]{number}. {scene.title}[/bold]\n   {scene.plot}")
                self._score.append((scene, await self._attempt(scene, system, cast)))

    async def _attempt(self, scene: Scene, system: System, cast: Cast) -> Outcome | None:
        try:
            outcome = await scene.play(system, cast)
        except FAILURES as error:
            self._console.print(f"   [red]✗ {str(error) or 'nothing came in time'}[/red]")
            return None
        for push in outcome.pushes:
            self._console.print(_phone(push))
        self._console.print(f"   [green]✓[/green] {_words(outcome.decisions)}{_latency(outcome)}")
        return outcome

    def sum_up(self) -> None:
        table = Table(title="What happened", title_justify="left", pad_edge=False)
        for heading, justify in (("scene", "left"), ("decided", "left"), ("submit to push", "right"), ("", "left")):
            table.add_column(heading, justify=justify)  # type: ignore[arg-type] # the literals survive no loop
        for scene, outcome in self._score:
            verdict = "[green]as expected[/green]" if outcome else "[red]not as expected[/red]"
            decided = _words(outcome.decisions) if outcome else ""
            table.add_row(scene.title, decided, _latency(outcome).strip(" ·") if outcome else "", verdict)
        self._console.print("", table)


def _phone(push: ReceivedPush) -> Panel:
    """The push as the phone gets it."""
    content = _shortened(_without_token(push.payload))
    return Panel(JSON.from_data(content), title=_provider(push), title_align="left", width=100)


def _without_token(payload: Any) -> Any:
    """Only FCM's message holds the push token."""
    match payload:
        case {"message": {"token": _, **content}}:
            return content
    return payload


def _provider(push: ReceivedPush) -> str:
    """Each is known by what it alone is sent."""
    match push.headers:
        case {"apns-push-type": kind, "apns-topic": topic}:
            return f"APNs {kind} · topic {topic}"
        case {"urgency": urgency}:
            return f"Web Push · urgency {urgency}, decrypted by the browser"
    return "FCM"


def _shortened(value: Any) -> Any:
    match value:
        case dict():
            return {name: _shortened(inner) for name, inner in value.items()}
        case str() if len(value) > _LONGEST:
            return f"{value[:_LONGEST]}… ({len(value)} characters)"
        case _:
            return value


def _words(decisions: Counter[str]) -> str:
    """In the order in which they are taken; what is no decision comes first, as it is."""
    outcome = sorted(decisions.items(), key=lambda found: _ORDER.get(found[0], 0))
    return ", ".join(f"{count} {word}" if count > 1 else word for word, count in outcome)


def _latency(outcome: Outcome) -> str:
    return "" if outcome.seconds is None else f" · {outcome.seconds * 1000:.0f} ms"


def _progress(console: Console) -> Progress:
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console, transient=True
    )


def scenes_of(words: Sequence[str]) -> list[Scene]:
    """Those of the story whose titles have one of the words; all of it without any. Raises `SystemExit` if there is none."""
    found = [scene for scene in STORY if not words or any(word.casefold() in scene.title.casefold() for word in words)]
    if not found:
        raise SystemExit(f"no scene is called so; there are: {', '.join(scene.title for scene in STORY)}")
    return found


async def main(words: Sequence[str] = ()) -> int:
    scenes = scenes_of(words)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    start = time.monotonic()
    stage = DemoStage(console, scenes)
    with _progress(console) as progress:
        task = progress.add_task("starting", total=None)

        def show_step(step: str) -> None:
            progress.update(task, description=step)
            console.print(f"[dim]{time.monotonic() - start:5.1f} s[/dim]  {step}")

        async with running("demo", show_step) as system:
            progress.stop()
            console.print(f"[dim]{time.monotonic() - start:5.1f} s[/dim]  everything is up")
            await stage.play(system)
    stage.sum_up()
    console.print(
        f"\n{time.monotonic() - start:.0f} s in all. The first push of each channel waits for its Lambdas to start. "
        "The logs are in .build/demo."
    )
    return 0 if stage.flawless else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
