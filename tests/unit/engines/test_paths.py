"""A model's name is any text: one that no file system takes is a model that is not here, and never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from servegate.engines.checkpoint import checkpoint_facts
from servegate.engines.model_files import local_config
from servegate.engines.paths import path_of
from servegate.errors import UsageError

ODD = ("~no-such-user-here/model", "x" * 5_000, "/" + "x" * 300, "a\0b", "/dev/null/model", "")


@pytest.mark.parametrize("text", ODD[:-1])
def test_what_no_file_system_takes_is_not_here(text: str) -> None:
    found = path_of(text)
    assert not found.exists()
    assert not found.is_dir()
    with pytest.raises(UsageError, match="no such directory"):
        local_config("/" + text)
    assert checkpoint_facts("/" + text)["checkpoint_quantization_reason"]


def test_a_path_that_exists_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    assert path_of("~/model") == tmp_path / "model"
    assert path_of(str(tmp_path / "later")) == tmp_path / "later"
