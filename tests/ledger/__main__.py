"""`make ledger` prints the tables of docs/cost.md, measured on the real code."""

from bench.figures import report as report_figures
from tests.ledger import wake_ups
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.whole_bill import beside_naive, measure_all, report
from tests.match import ledger

WAKE_UP_ROUNDS = 6


def main() -> None:
    ledger.main()
    measured = measure_all()
    print()
    report_figures(beside_naive(measured))
    print("\n" + report(measured))
    with deployed_stages() as stages:
        woken = wake_ups.measure(stages, rounds=WAKE_UP_ROUNDS)
    print("\n" + wake_ups.report(woken))


if __name__ == "__main__":
    main()
