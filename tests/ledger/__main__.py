"""`make ledger` prints the tables of docs/cost.md, measured on the real code."""

from tests.ledger.end_to_end import deployed_stages
from tests.ledger.whole_bill import PACES, measure, report
from tests.match import ledger


def main() -> None:
    ledger.main()
    with deployed_stages() as stages:
        measured = {pace.name: measure(stages, pace) for pace in PACES}
    print("\n" + report(measured))


if __name__ == "__main__":
    main()
