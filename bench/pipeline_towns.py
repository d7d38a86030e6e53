"""A large day out of a small one: so many towns have that day, each with people, senders and statements of its own.

What is decided of which statement and when is the same in each town, faults and answers, too. Who is who is not: receipts,
subscriptions and clients have other names, and each statement is another sender's, who has signed it. So it is as much
work to judge as any day of that size, but to make it costs little more than the signatures: Spark would take seven
minutes of a processor for 1.6 million statements, this takes one and a half, besides the small day.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import sha256
from itertools import chain
from multiprocessing import get_context

import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import dataset, parquet

from clarion.networks.statements.rules import NUMBER
from pipeline.columns import EventKind
from pipeline.generator.plan import Plan
from pipeline.generator.traffic import Draft, keypair, signed_draft
from pipeline.lake.commits import Kinds, LakeView, Manifest, commit, data_folder, merged, new_commit
from pipeline.lake.files import joined
from pipeline.lake.parquet import DataFile, write_parquet
from pipeline.period import EVER

ANSWERS = "made/answers"
_DRAFTED = [*Draft._fields[:-1], "topic"]
_TOPIC_AT, _ID_BYTES = 33, 32
"""In a key, behind the network's number and the sender."""

type Hours = Mapping[str, Kinds]


@dataclass(frozen=True)
class Names:
    """What is called otherwise in a town: the n-th of `before` is the n-th of `after`."""

    before: pa.Array
    after: pa.Array

    def of(self, values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        """None stays None. Raises `ValueError` if one has no name here."""
        places = pc.index_in(values, self.before)
        if places.null_count != values.null_count:
            raise ValueError("what is not of the small day has no name in the town")
        return pc.take(self.after, places)


@dataclass(frozen=True)
class Town:
    number: int
    senders: Names
    envelopes: Names
    raws: Names

    def renamed(self, rows: pa.Table) -> pa.Table:
        """Rows of any kind, as this town has them."""
        for place, name in enumerate(rows.column_names):
            if name in _RENAMED:
                rows = rows.set_column(place, rows.schema.field(place), _RENAMED[name](self, rows.column(place)))
        return rows

    def text(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        """UUIDs, of which enough is left to tell them apart."""
        return pc.binary_join_element_wise(f"{self.number:02x}", pc.utf8_slice_codeunits(values, 2), "")

    def client(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.binary_join_element_wise(bytes([self.number]), pc.binary_slice(values, 1, _ID_BYTES), b"")

    def key(self, values: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
        sender, topic = (
            pc.binary_slice(values, len(NUMBER), _TOPIC_AT),
            pc.binary_slice(values, _TOPIC_AT, _TOPIC_AT + _ID_BYTES),
        )
        return pc.binary_join_element_wise(NUMBER, self.senders.of(sender), topic, b"")

    def rules(self, values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([self._rules(chunk) for chunk in values.chunks], values.type)

    def _rules(self, lists: pa.ListArray) -> pa.ListArray:
        each = lists.values
        columns = [self.key(each.field("key")), *(each.field(at) for at in range(1, each.type.num_fields))]
        named = pa.StructArray.from_arrays(columns, fields=list(each.type))
        return pa.ListArray.from_arrays(lists.offsets, named, type=lists.type)


_RENAMED = {
    "receipt": Town.text,
    "subscription_id": Town.text,
    "client_id": Town.client,
    "sender": lambda town, values: town.senders.of(values),
    "envelope_id": lambda town, values: town.envelopes.of(values),
    "raw": lambda town, values: town.raws.of(values),
    "key": Town.key,
    "rules": Town.rules,
}


def build(small: str, root: str, plan: Plan, towns: int, processes: int) -> None:
    """Write a lake at `root`, of the small one's `plan`, which was made of statements alone."""
    groups = [range(towns)[first::processes] for first in range(processes)]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        written = list(pool.map(partial(_write_towns, small, root, plan), groups))
    for found in LakeView(small).manifests(EVER):
        kinds = reduce(merged, (hours[found.hour] for hours in written))
        new = replace(found, commit=new_commit(), kinds=kinds)
        commit(root, replace(new, counted=None if found.counted is None else new.lines), None)


def _write_towns(small: str, root: str, plan: Plan, numbers: Sequence[int]) -> Hours:
    """The files by hour and kind. Limits are the same for all, and in the first of the towns."""
    statements = _table(small, "made/statements")
    towns = [town(number, statements, plan) for number in numbers]
    del statements
    write_parquet(root, ANSWERS, _batches(_table(small, ANSWERS), towns))
    return {found.hour: dict(_written(small, root, found, towns)) for found in LakeView(small).manifests(EVER)}


def _written(
    small: str, root: str, found: Manifest, towns: Sequence[Town]
) -> Iterator[tuple[str, tuple[DataFile, ...]]]:
    for kind, files in found.kinds.items():
        having = [each for each in towns if kind != EventKind.LIMITS or each.number == 0]
        if files and having:
            rows = pa.concat_tables(parquet.ParquetFile(joined(small, file.path)).read() for file in files)
            folder = data_folder(kind, found.hour, new_commit())
            yield kind, (write_parquet(root, folder, _batches(rows, having)),)


def _batches(rows: pa.Table, towns: Iterable[Town]) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(each.renamed(rows).combine_chunks().to_batches() for each in towns)


def town(number: int, statements: pa.Table, plan: Plan) -> Town:
    """Its seed, by which its senders' keys are made, is one that no other town has."""
    seed = plan.seed + 1 + number
    authors = range(plan.senders + plan.floods + plan.strangers)
    senders = ([keypair(by, author)[0] for author in authors] for by in (plan.seed, seed))
    drafted = zip(*(statements.column(name).to_pylist() for name in _DRAFTED), strict=True)
    drafts = (Draft._make((*draft, _topic(plan, draft[1], topic))) for *draft, topic in drafted)
    raws, ids, _ = (
        pa.array(column, pa.binary()) for column in zip(*(signed_draft(draft, seed) for draft in drafts), strict=True)
    )
    return Town(
        number,
        Names(*(pa.array(keys, pa.binary()) for keys in senders)),
        Names(statements.column("envelope_id").combine_chunks(), ids),
        Names(statements.column("raw").combine_chunks(), raws),
    )


def _topic(plan: Plan, author: int, topic: int) -> bytes:
    """As `people.topic_key`."""
    return sha256(f"{plan.seed}/topic/{author}/{topic}".encode()).digest()


def _table(root: str, folder: str) -> pa.Table:
    return dataset.dataset(joined(root, folder), format="parquet").to_table()
