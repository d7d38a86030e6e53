"""`make ledger` prints the tables of docs/cost.md, measured on the real code."""

from bench.figures import report as report_figures
from tests.ledger.whole_bill import beside_naive, measure_all, report
from tests.match import ledger


def main() -> None:
    ledger.main()
    measured = measure_all()
    print()
    report_figures(beside_naive(measured))
    print("\n" + report(measured))


if __name__ == "__main__":
    main()
