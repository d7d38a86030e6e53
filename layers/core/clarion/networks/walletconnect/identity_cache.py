"""Identity keys as key servers have them, kept for a week. Which account a key signs for, `identity` says."""

from pynamodb.attributes import JSONAttribute, NumberAttribute, UnicodeAttribute
from pynamodb.models import Model

from clarion.networks.walletconnect.needs import IDENTITIES
from clarion.tables import find_row

KEPT_SECONDS = 7 * 86_400


class IdentityDocument(Model):
    """`key` is the end of the did:key, `z6Mk…`, and `ksu` the key server that has its CACAO."""

    class Meta:
        table_name = IDENTITIES

    key = UnicodeAttribute(hash_key=True)
    ksu = UnicodeAttribute()
    cacao = JSONAttribute()
    ttl = NumberAttribute()

    def __repr__(self) -> str:
        return f"IdentityDocument({self.key})"


def cached_identity(key: str, ksu: str, now: int) -> IdentityDocument | None:
    """As that key server has it, unless it is too old; `now` is in UNIX seconds."""
    row = find_row(IdentityDocument, key, consistent_read=False)
    return row if row is not None and row.ksu == ksu and row.ttl > now else None
