"""Who sets the pace of a load: the card, or the host that feeds it; and how far two starts of one config differ then.

An engine that makes a small share of what its card's bandwidth and arithmetic allow waits for its own CPU: the scheduler, the
launch of kernels, the streaming of tokens. Where its processes happen to land on the host's cores is settled at the start and
stays for its life, so the windows of one start agree with each other, blocks that are measured in turn agree too, and both say
nothing about the next start. Seen on an H200 (135M model, eager, 32 in flight, 1 % of the ceiling): two starts of one config
served 1,689 and 2,285 tokens/s, 1.355 times as fast with an interval of 1.259 to 1.458 from four blocks each; on another day
1.158 (1.060 to 1.266). Six starts of the same model, compiled (4 to 5 % of the ceiling), served 6,915 to 11,319 tokens/s: a
standard deviation of 0.187 of the log speed, at most 0.40 (95 %). Six starts of an 8B shape, which makes 23 to 43 % of its
ceiling there, differed by 0.012 (at most 0.026). `docs/hardware.md` has the runs.

An engine that computes on a CPU is its own host: of 15 runs of a config against itself on two idle cores, three would have
claimed 1.04 to 1.05 times the speed with 1 % between starts. Its interval holds the larger spread too, though its speed is
not judged.
"""

from __future__ import annotations

from statistics import fmean

from servegate.checks.throughput.settings import ThroughputSettings
from servegate.checks.throughput.shape import HOST_BOUND
from servegate.checks.throughput.validity import Paired


def host_bound(pair: Paired, ceilings: tuple[float | None, float | None], settings: ThroughputSettings) -> str | None:
    """Say that the host sets the pace of both arms (`host-bound: sentence`), or None.

    An arm that comes near its ceiling shows that the host can feed the card: then the other arm's loss is a loss.
    Without a ceiling (unknown card or model) nothing is said.
    """
    shares = {}
    for (name, side), ceiling in zip(pair.sides, ceilings, strict=True):
        if not side or not ceiling:
            return None
        shares[name] = fmean(point.output_tokens_per_second for point in side) / ceiling
    if max(shares.values()) >= settings.limits.host_share:
        return None
    return (
        f"{HOST_BOUND}: the baseline makes {shares['baseline']:.1%} of what its card allows "
        f"and the candidate {shares['candidate']:.1%}: "
        "the host sets the pace, not the card, and starts of one config differ far more there, so the interval is widened "
        f"(a standard deviation of {restart_sd(host=True, settings=settings):.0%} from start to start). A larger model, more "
        "requests in flight or a faster CPU would show what the change does to the card"
    )


def restart_sd(*, host: bool, settings: ThroughputSettings) -> float:
    """Return the standard deviation of one start's log speed: larger where the host sets the pace."""
    return max(settings.limits.restart_sd, settings.limits.host_restart_sd) if host else settings.limits.restart_sd
