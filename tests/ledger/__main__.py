"""`make ledger` prints the tables of docs/cost.md, measured on the real code."""

from tests.ledger.journey import journeying
from tests.ledger.whole_bill import PACES, measure, shown
from tests.match import ledger


def main() -> None:
    ledger.main()
    with journeying() as journey:
        measured = {pace.name: measure(journey, pace) for pace in PACES}
    print("\n" + shown(measured))


if __name__ == "__main__":
    main()
