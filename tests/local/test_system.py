import json
from pathlib import Path

from local.system import counted_in


def flushed(**metrics: float) -> str:
    return json.dumps({"_aws": {}, **{name: [value] for name, value in metrics.items()}}) + "\n"


def test_what_was_counted_is_summed_over_the_first_task_and_those_that_took_its_place(tmp_path: Path) -> None:
    (tmp_path / "ingest.log").write_text(flushed(unmatched=2) + "no metrics\n" + flushed(unmatched=1, other=5))
    (tmp_path / "ingest-next.log").write_text(flushed(unmatched=4) + '{"_aws": half a line')
    (tmp_path / "emulator.log").write_text(flushed(unmatched=8))
    assert counted_in(tmp_path, "unmatched") == 7
