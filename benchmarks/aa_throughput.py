"""Reads one measured A/A gate as many: how often does a speed comparison of two equal servers claim a difference?

    servegate run --config aa.yaml ...      # two equal serving configs, throughput with e.g. windows: 100, single: null
    python benchmarks/aa_throughput.py RUN_DIRECTORY --windows 5

The windows of both arms are cut into sets of `--windows`; set k of one arm is compared with set k of the other as the gate
would (`compare` of the check), without looking at what the engine ran on, so that a CPU's claims are counted too.

What is independent: the noise inside a window set. What is not: there are two starts only, so whatever differs between the
two starts is in every comparison alike. Rows marked `within` compare neighbouring sets of one start, with no restart in them.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean, stdev

from servegate.artifacts import RunDirectory
from servegate.checks.throughput.record import LoadPoint, ThroughputMeasurement
from servegate.checks.throughput.settings import SERVING, ThroughputSettings
from servegate.checks.throughput.shape import SpeedPair, ratio_of, speed_pair
from servegate.checks.throughput.validity import Paired, faults
from servegate.domain.evidence import NotMeasured


def main() -> int:
    """Print claims and spread; exit 1 when a comparison that is not INVALID claims a difference."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--windows", type=int, default=5, help="windows of a set (5)")
    arguments = parser.parse_args()
    run = RunDirectory.open(arguments.run)
    settings = ThroughputSettings.model_validate_json(
        __import__("json").dumps(run.read_plan().checks["throughput"]), strict=False
    )
    arms = []
    for name in ("baseline", "candidate"):
        found = run.read_measurement(name, "throughput", ThroughputMeasurement)
        if isinstance(found, NotMeasured):
            print(f"{name}: {found.reason.message}", file=sys.stderr)
            return 2
        windows = sorted((p for p in found.points if p.load == SERVING), key=lambda p: p.block)
        arms.append([windows[at : at + arguments.windows] for at in range(0, len(windows), arguments.windows)])
    engines = [run.read_engine(name) for name in ("baseline", "candidate")]
    on_cpu = any(facts is not None and facts.device == "cpu" for facts in engines)
    sets = [(a, b) for a, b in zip(*arms, strict=True) if len(a) == len(b) == arguments.windows]
    wrong = show("between two starts", sets, settings, settings.limits.restart_sd, on_cpu)
    for name, windows in zip(("baseline", "candidate"), arms, strict=True):
        pairs = [(windows[at], windows[at + 1]) for at in range(0, len(windows) - 1, 2)]
        show(f"within the {name}'s start", pairs, settings, 0.0, on_cpu)
    return 1 if wrong else 0


def show(
    title: str,
    sets: list[tuple[list[LoadPoint], list[LoadPoint]]],
    settings: ThroughputSettings,
    restart_sd: float,
    on_cpu: bool,
) -> int:
    """Print one line; return how many comparisons that are not INVALID claim a difference."""
    points: list[tuple[SpeedPair, SpeedPair]] = []
    for left, right in sets:
        void = faults(Paired(tuple(left), tuple(right)), settings, on_cpu=on_cpu)
        key = (SERVING, settings.judged_at)
        points.append((speed_pair(key, left, right, restart_sd), speed_pair(key, left, right, restart_sd, void)))
    logs = [ratio.value for left, right in sets if (ratio := ratio_of(left, right, restart_sd)) is not None]
    claims = Counter(point.claim for _all, point in points)
    alone = Counter(point.claim for point, _all in points)
    spread = f"{stdev(logs):.4f}" if len(logs) > 1 else "-"
    detectable = sorted(point.detectable or 0.0 for point, _all in points)[len(points) // 2]
    print(f"{title}: {len(sets)} comparisons at {settings.judged_at} in flight")
    print(f"  claims {dict(claims)}; by the interval alone {dict(alone)}")
    print(f"  mean ln(ratio) {fmean(logs):+.4f}, SD over sets {spread}; smallest detectable change, median {detectable:.1%}")
    return claims["faster"] + claims["slower"]


if __name__ == "__main__":
    sys.exit(main())
