"""The cache stays in bounds, the longest unused goes first, and what a gate uses stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from servegate.cli.clean import command
from servegate.engines import cache_keeping
from servegate.engines.cache_keeping import GIB, Entry, entries, in_use, keep_in_bounds, remove, surplus

NOW_S = time.time()
DAY_S = 86_400
AA, BB = "aa" * 8, "bb" * 8


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("SERVEGATE_CACHE_DIR", str(tmp_path))
    return {"SERVEGATE_CACHE_DIR": str(tmp_path)}


def made(place: Path, days: float, size: int = 1000) -> Path:
    place.mkdir(parents=True)
    (place / "graph.bin").write_bytes(b"x" * size)
    os.utime(place, (NOW_S - days * DAY_S,) * 2)
    return place


def test_idle_graphs_go_and_everything_else_stays(tmp_path: Path, cache: dict[str, str]) -> None:
    old, new = made(tmp_path / "compiled" / AA, 31), made(tmp_path / "compiled" / BB, 29)
    kept = [made(tmp_path / name, 400) for name in ("engine-" + "1" * 12, "models/m", "somebody-else")]
    said: list[str] = []
    keep_in_bounds(cache, said.append, NOW_S)
    assert not old.exists()
    assert new.exists()
    assert all(each.exists() for each in kept)
    assert len(said) == 1
    assert "removed 1 compile caches" in said[0]
    keep_in_bounds(cache, said.append, NOW_S)
    assert len(said) == 1


def test_what_somebody_else_keeps_in_the_same_folder_is_neither_listed_nor_removed(
    tmp_path: Path, cache: dict[str, str]
) -> None:
    theirs = [
        made(tmp_path / name, 400) for name in ("compiled/mine", "engine-parts", "models/llama", "hub/models--org--m", "x")
    ]
    (tmp_path / "hub" / "notes.txt").write_text("mine")
    assert entries(cache) == []
    keep_in_bounds(cache, lambda _line: None, NOW_S)
    assert CliRunner().invoke(command, ["--days", "1"]).exit_code == 0
    assert all((each / "graph.bin").exists() for each in theirs)
    assert (tmp_path / "hub" / "notes.txt").exists()
    with in_use([tmp_path / "models" / "llama"], cache):  # a gate served it from there
        assert entries(cache) == []


def test_the_longest_unused_go_until_the_rest_fits() -> None:
    found = [Entry("compiled", Path(name), size * GIB, NOW_S - age * DAY_S) for name, size, age in
             (("a", 8, 1), ("b", 8, 3), ("c", 8, 2), ("d", 1, 40))]  # fmt: skip
    assert [each.path.name for each in surplus(found, NOW_S, most_days=30, most_gib=20)] == ["d", "b"]
    assert [each.path.name for each in surplus(found, NOW_S, most_days=30, most_gib=100)] == ["d"]
    assert len(surplus(found, NOW_S, most_days=30, most_gib=0)) == 4


def test_a_clock_that_was_set_back_makes_nothing_old() -> None:
    assert Entry("compiled", Path("a"), 1, NOW_S + DAY_S).idle_days(NOW_S) == 0


def test_what_another_process_uses_stays(tmp_path: Path, cache: dict[str, str]) -> None:
    place = made(tmp_path / "compiled" / AA, 100)
    script = (
        "import os, sys\nfrom servegate.engines.cache_keeping import in_use\n"
        "with in_use([sys.argv[1]], os.environ):\n    print('held', flush=True)\n    sys.stdin.read()\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env={**os.environ, **cache}, text=True) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        (entry,) = entries(cache)
        assert remove(entry) == "in use by a gate"
        result = CliRunner().invoke(command, ["--gib", "0"])
        assert result.exit_code == 0
        assert "in use by a gate" in result.output
        assert place.is_dir()
        holder.communicate("")
    assert remove(entry) is None
    assert not place.exists()
    assert list((tmp_path / "compiled").iterdir()) == []


def test_using_an_entry_makes_it_young_also_through_a_link(tmp_path: Path, cache: dict[str, str]) -> None:
    place = made(tmp_path / "models" / "m-123456789abc", 100)
    link = tmp_path / "link"
    link.symlink_to(place)
    with in_use([link / "config.json", "org/model-of-the-hub", tmp_path / "elsewhere"], cache):
        pass
    (entry,) = entries(cache)
    assert entry.kind == "models"
    assert entry.used_s > NOW_S - 100 * DAY_S


def test_a_lock_on_what_was_removed_meanwhile_is_taken_anew(tmp_path: Path, cache: dict[str, str], monkeypatch) -> None:
    place = made(tmp_path / "compiled" / AA, 100)
    real, calls = cache_keeping.fcntl.flock, []

    def late(descriptor: int, operation: int) -> None:
        if not calls:  # the other one removes the entry and its mark between our open and our lock
            calls.append(1)
            (tmp_path / "compiled" / f"{AA}.used").unlink()
        real(descriptor, operation)

    monkeypatch.setattr(cache_keeping.fcntl, "flock", late)
    with in_use([place], cache):
        assert remove(entries(cache)[0]) == "in use by a gate"


def test_a_cut_off_removal_is_finished_and_links_are_left_alone(tmp_path: Path, cache: dict[str, str]) -> None:
    made(tmp_path / "compiled" / f".removing-{AA}-7", 0)
    outside = made(tmp_path / "outside", 100)
    (tmp_path / "compiled" / BB).symlink_to(outside)
    keep_in_bounds(cache, lambda _line: None, NOW_S)
    assert sorted(each.name for each in (tmp_path / "compiled").iterdir()) == [BB]
    assert (outside / "graph.bin").exists()


def test_clean_lists_before_it_removes(tmp_path: Path, cache: dict[str, str]) -> None:
    place = made(tmp_path / f"engine-{AA[:12]}", 100)
    made(tmp_path / "hub", 0)
    (tmp_path / "hub" / "hub-wikitext-2").write_text("text")
    listed = CliRunner().invoke(command, ["--list"])
    assert "would be removed" in listed.output
    assert "hub" in listed.output
    assert place.exists()
    assert "kept" in CliRunner().invoke(command, ["--kind", "hub"]).output
    assert place.exists()
    assert "removed" in CliRunner().invoke(command, []).output
    assert not place.exists()


def test_a_cache_that_cannot_be_written_to_harms_nobody(tmp_path: Path) -> None:
    blocked = {"SERVEGATE_CACHE_DIR": str(tmp_path / "file")}
    (tmp_path / "file").write_text("")
    with in_use([tmp_path / "file" / "compiled" / AA], blocked):
        keep_in_bounds(blocked, lambda _line: None, NOW_S)
    assert entries(blocked) == []


HOLDER = """
import sys, time
from servegate.engines.cache_keeping import in_use
with in_use([sys.argv[1]], {"SERVEGATE_CACHE_DIR": sys.argv[2]}):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_gate_that_runs_keeps_its_graphs_and_one_that_was_killed_holds_nothing(tmp_path: Path, cache: dict[str, str]) -> None:
    """`servegate clean` beside a running gate, then after the gate's process was killed without a chance to let go."""
    kept = made(tmp_path / "compiled" / AA, 40)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(kept), str(tmp_path)], stdout=subprocess.PIPE, env={**os.environ, **cache}
    ) as gate:
        assert gate.stdout is not None
        assert gate.stdout.readline() == b"held\n"
        os.utime(tmp_path / "compiled" / f"{AA}.used", (NOW_S - 40 * DAY_S,) * 2)
        done = CliRunner().invoke(command, ["--days", "1"])
        assert (done.exit_code, kept.exists()) == (0, True)
        assert "in use by a gate" in " ".join(done.output.split())
        gate.kill()
    assert CliRunner().invoke(command, ["--days", "1"]).exit_code == 0
    assert not kept.exists()


def test_an_entry_that_goes_while_it_is_looked_at_is_nobodys_error(
    tmp_path: Path, cache: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two clean-ups at once: the folder vanishes between the listing and the removal, or while its size is added up."""
    gone = made(tmp_path / "compiled" / AA, 40)
    listed = entries(cache)
    assert remove(listed[0]) is None
    assert remove(listed[0]) is None
    again = made(tmp_path / "compiled" / BB, 40)
    real = cache_keeping.size_bytes

    def vanishing(path: Path) -> int:
        (path / "graph.bin").unlink(missing_ok=True)
        path.rmdir()
        return real(path)

    monkeypatch.setattr(cache_keeping, "size_bytes", vanishing)
    assert CliRunner().invoke(command, ["--days", "1"]).exit_code == 0
    assert not gone.exists()
    assert not again.exists()
