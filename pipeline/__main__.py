"""`python -m pipeline JOB …`, and what spark-submit is given on EMR Serverless."""

from pipeline.cli import main

raise SystemExit(main())
