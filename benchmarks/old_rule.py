"""How often the rule of thumb "within one standard error, and flips at most twice the baseline's own" is right.

    python benchmarks/old_rule.py [--gates 4000] [--seed 1]

Simulated gates of 1,319 questions (GSM8K's number) whose true drop is known, judged by the rule of thumb (one round of the
candidate against one of the baseline, the flips beside those of a second baseline round; `checks.accuracy.old_rule`) and by the
`standard` policy (two rounds an arm). 10 % of the questions are coins in both arms, so that the baseline flips 5 % of its own
answers; a lost question is one that the baseline always answers and the candidate never. `changed`: this share changes for
good beside that, as often for the better as for the worse, as a harmless change of numerics does.
"""

from __future__ import annotations

import argparse

import numpy as np

from servegate.checks.accuracy.old_rule import within_old_rule
from servegate.domain.policies import POLICIES
from servegate.stats.intervals import mean_of

QUESTIONS, COINS, RIGHT = 1_319, 0.10, 0.80
CASES = ((0.0, 0.0), (0.0, 0.025), (0.0, 0.05), (0.5, 0.025), (1.0, 0.025), (2.0, 0.025), (3.0, 0.025))
"""True drop in points, share changed for good."""


def gate(rng: np.random.Generator, drop: float, changed: float) -> tuple[bool, bool]:
    """Return whether one simulated gate passes by the rule of thumb, and by the standard policy."""
    place, coin = rng.random(QUESTIONS), rng.random(QUESTIONS) < COINS
    right = rng.random(QUESTIONS) < RIGHT
    lost = place < drop / 100
    gone = (place >= 1 - changed / 2) & ~lost
    won = (place >= 1 - changed) & ~gone & ~lost
    coin &= ~(lost | gone | won)
    before = np.where(lost | gone, 1.0, np.where(won, 0.0, right))
    after = np.where(lost | gone, 0.0, np.where(won, 1.0, right))
    chances = [np.where(coin, 0.5, fixed) for fixed in (before, after)]
    baseline, candidate = (rng.random((2, QUESTIONS)) < chance for chance in chances)
    flips_own, flips = int((baseline[0] != baseline[1]).sum()), int((baseline[0] != candidate[0]).sum())
    accuracies = float(baseline[0].mean()), float(candidate[0].mean())
    mean = mean_of(list(baseline.mean(axis=0) - candidate.mean(axis=0)))
    standard = 100 * mean.upper(0.05) < POLICIES["standard"]["accuracy"]["limits.pass_drop_points"]
    return within_old_rule(*accuracies, QUESTIONS, flips, flips_own), standard


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=4_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    print(f"{options.gates} gates a line; largest standard error {50 / options.gates**0.5:.1f} points")
    print("true drop   changed   old rule PASS   standard PASS")
    for number, (drop, changed) in enumerate(CASES):
        rng = np.random.default_rng([options.seed, number])
        passed = np.mean([gate(rng, drop, changed) for _ in range(options.gates)], axis=0)
        print(f"{drop:9.1f} {changed:9.1%} {passed[0]:15.3f} {passed[1]:15.3f}")


if __name__ == "__main__":
    main()
