from pathlib import Path

import pytest

from local.lifetime import AlreadyRunningError, only_one


def test_only_one_program_uses_a_folder_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "made later" / "run"
    with only_one(folder), pytest.raises(AlreadyRunningError, match=str(folder)), only_one(folder):
        pass
    with only_one(folder):
        assert not folder.exists()
