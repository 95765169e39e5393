"""A compile cache for each arm: apart where something differs, the same where nothing does, and never over a choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from servegate.engines.compile_cache import cache_for, home, key_of, size_bytes
from tests.unit.samples import arm


def made(tmp_path: Path, served, cards=("NVIDIA H200",), **environment: str) -> dict[str, str]:
    return cache_for(served, str(tmp_path / "vllm"), {"SERVEGATE_CACHE_DIR": str(tmp_path), **environment}, list(cards))


def test_arms_do_not_share_and_runs_do(tmp_path: Path) -> None:
    (tmp_path / "vllm").write_text("first")
    baseline = arm()
    first = made(tmp_path, baseline)
    assert first["VLLM_CACHE_ROOT"].startswith(str(tmp_path / "compiled"))
    assert made(tmp_path, baseline.model_copy(update={"name": "candidate", "session": 1})) == first
    others = [
        made(tmp_path, baseline.model_copy(update={"argv": (*baseline.argv, "--quantization=fp8")})),
        made(tmp_path, baseline.model_copy(update={"environment": {"VLLM_USE_DEEP_GEMM": "0"}})),
        made(tmp_path, baseline, cards=("NVIDIA A10",)),
    ]
    (tmp_path / "vllm").unlink()
    others.append(made(tmp_path, baseline))
    roots = {each["VLLM_CACHE_ROOT"] for each in (first, *others)}
    assert len(roots) == 5


def test_what_somebody_chose_stays_and_a_place_that_is_not_ours_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert made(tmp_path, arm(), VLLM_CACHE_ROOT="/chosen") == {}
    monkeypatch.setattr("os.access", lambda _path, _mode: False)
    assert made(tmp_path, arm()) == {}


def test_the_place_and_its_size(tmp_path: Path) -> None:
    assert home({"SERVEGATE_CACHE_DIR": "/a"}) == Path("/a/compiled")
    assert home({"XDG_CACHE_HOME": "/b"}) == Path("/b/servegate/compiled")
    assert home({}) == Path.home() / ".cache/servegate/compiled"
    (tmp_path / "one").mkdir()
    (tmp_path / "one/graph").write_bytes(b"x" * 1000)
    (tmp_path / "two").write_bytes(b"x" * 24)
    (tmp_path / "link").symlink_to(tmp_path / "two")
    assert size_bytes(tmp_path) == 1024
    assert size_bytes(tmp_path / "absent") == 0
    assert len(key_of(arm(), "/no/such/vllm", [])) == 16
