"""`make ledger` prints the tables of docs/cost.md, measured on the real code; the last line is the whole bill's."""

from bench.figures import report as report_figures
from tests.ledger import simplex, wake_ups, walletconnect, zulip
from tests.ledger.end_to_end import deployed_stages
from tests.ledger.whole_bill import beside_naive, measure_all, report
from tests.match import ledger

ROUNDS = 6
"""Of what has a table of its own."""


def main() -> None:
    ledger.main()
    for each in (wake_ups, zulip, walletconnect, simplex):
        # Each of its own, as what one leaves in a queue the next would receive.
        with deployed_stages() as stages:
            print("\n" + each.report(each.measure(stages, rounds=ROUNDS)))
    measured = measure_all()
    print()
    report_figures(beside_naive(measured))
    print("\n" + report(measured))


if __name__ == "__main__":
    main()
