"""What the ledgers share: measured amounts are tuples with a field for each, and a table of the page has a row for each."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import NamedTuple

from bench.markdown import table_row

LABELS = {
    "reads": "DynamoDB, read units",
    "writes": "DynamoDB, write units",
    "requests": "SQS, requests",
    "streamed": "Firehose, bytes billed",
    "invocations": "Lambda, invocations",
    "router_waiting": "the router waits, ms",
    "router_processor": "the router computes, ms",
    "match_waiting": "match waits, ms",
    "match_processor": "match computes, ms",
    "dispatch_waiting": "dispatch waits, ms",
    "dispatch_processor": "dispatch computes, ms",
    "logged": "logs, bytes",
    "metrics": "metrics, millionths of a month",
    "sent": "sent to the provider, bytes",
}
"""What the amounts are called on the page that several ledgers have."""
AMOUNT = "amount"
"""The column of what has one."""
ROUNDING = 0.0005
"""The pages have three digits."""


@dataclass(frozen=True)
class AmountsTable[Amounts: NamedTuple]:
    """`labels` are those of the fields of `kind` that `LABELS` has not, or another one."""

    kind: type[Amounts]
    title: str
    columns: Sequence[str] = (AMOUNT,)
    labels: Mapping[str, str] = MappingProxyType({})
    show: Callable[[float], str] = "{:,.3f}".format

    def text(self, measured: Iterable[Amounts]) -> str:
        labels = {**LABELS, **self.labels}
        rows = zip(self.kind._fields, zip(*measured, strict=True), strict=True)
        return table(self.title, self.columns, ((labels[name], map(self.show, row)) for name, row in rows))

    def read(self, page: str) -> dict[str, Amounts]:
        """By column: undo `text`, wherever on the page it stands."""
        lines = page.splitlines()
        start = lines.index(table_row([self.title, *self.columns])) + 2
        rows = (line.strip("| ").split(" | ") for line in takewhile(lambda line: line.startswith("|"), lines[start:]))
        amounts = zip(*([_number(figure) for figure in figures] for _, *figures in rows), strict=True)
        return {name: self.kind(*column) for name, column in zip(self.columns, amounts, strict=True)}


def dollars_table(title: str, columns: Iterable[str], billed: Sequence[Mapping[str, float]]) -> str:
    """A row for each service, and a column for each bill."""
    return table(title, columns, ((name, [f"{each[name]:,.2f}" for each in billed]) for name in billed[0]))


def table(title: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    head = [title, *columns]
    rule = f"|---|{'--:|' * (len(head) - 1)}"
    return "\n".join([table_row(head), rule, *(table_row([name, *figures]) for name, figures in rows)])


def _number(shown: str) -> float:
    """Of a decimal number, or of one in so many."""
    numerator, _, denominator = shown.replace(",", "").partition(" / ")
    return float(numerator) / float(denominator or 1)


def most[Amounts: NamedTuple](found: Sequence[Amounts], times: Collection[str]) -> Amounts:
    """The most of each count, the least of each time, which other work only delays."""
    kind = type(found[0])
    return kind(*((min if name in times else max)(getattr(one, name) for one in found) for name in kind._fields))


def dearer[Amounts: NamedTuple](
    measured: Amounts, documented: Amounts, *, times: Collection[str], slack: Mapping[str, float]
) -> dict[str, tuple[float, float]]:
    """What is more than documented, beside that. Times depend on the machine, and are not compared."""
    return {
        name: (amount, limit)
        for name, amount, limit in zip(measured._fields, measured, documented, strict=True)
        if name not in times and amount > limit * slack.get(name, 1) + ROUNDING
    }
