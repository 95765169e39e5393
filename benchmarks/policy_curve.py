"""How often each policy says PASS and FAIL on the accuracy of a candidate whose true drop is known.

    python benchmarks/policy_curve.py [--gates 1000] [--seed 1] [--policy standard] [--discordance 5] [--rounds 2]

Every simulated gate is judged with the limits of `servegate.domain.policies` and the interval of `servegate.stats`, PASS
before FAIL, as the accuracy check does. Two assumptions about noise, both printed, since the answer depends on them:

    drawn  10 % of the questions are coins (A/A discordance 5 %); each question changes for good with a chance of 2.5 %, and is
           lost with the chance of the true drop: another set of questions would have lost another number of them
    fixed  15 % of the questions are noisy with success rates spread evenly over [0, 1] (A/A discordance 5 %); exactly 2.5 % of
           this set change for good, half of them each way, and exactly the true drop is lost

A lost question is one that the baseline always answers and the candidate never.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from servegate.domain.policies import POLICIES, ROUNDS
from servegate.stats.intervals import mean_of

DROPS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
QUESTIONS = {"quick": 1_319, "standard": 1_319, "release": 2_638}
"""GSM8K's 1,319; for `release`, which wants two tasks, twice as many."""
CHANGED = 0.025
ASSUMPTIONS = {"drawn": 0.10, "fixed": 0.15}
"""Assumption -> share of noisy questions."""
PER_DISCORDANCE = {"drawn": 2.0, "fixed": 3.0}
"""Assumption -> noisy questions for each question that a baseline answers otherwise in its other round."""


def differences(rng: np.random.Generator, assumption: str, drop_points: float, questions: int, rounds: int) -> np.ndarray:
    """Return one gate's differences, baseline minus candidate, one a question."""
    drawn = assumption == "drawn"
    place = rng.random(questions) if drawn else (rng.permutation(questions) + 0.5) / questions
    share = drop_points / 100
    lost, gone, won = place < share, place >= 1 - CHANGED / 2, place < share + CHANGED / 2
    won &= ~lost
    noisy = (rng.random(questions) < ASSUMPTIONS[assumption]) & ~(lost | gone | won)
    success = np.full(questions, 0.5) if drawn else rng.random(questions)
    steady = (rng.random(questions) < 0.9).astype(float)  # what both arms answer where nothing is noise or change
    before = np.where(lost | gone, 1.0, np.where(won, 0.0, steady))
    candidate = np.where(lost | gone, 0.0, np.where(won, 1.0, steady))
    arms = []
    for fixed in (before, candidate):
        chance = np.where(noisy, success, fixed)
        arms.append(rng.binomial(rounds, chance) / rounds)
    return arms[0] - arms[1]


def curve(policy: str, assumption: str, gates: int, seed: int, rounds: int) -> list[tuple[float, float, float]]:
    """Return (drop in points, share of PASS, share of FAIL) for every drop."""
    limits = POLICIES[policy]["accuracy"]
    questions = QUESTIONS[policy]
    rows = []
    for drop in DROPS:
        rng = np.random.default_rng([seed, round(10 * drop), list(ASSUMPTIONS).index(assumption)])
        passed = failed = 0
        for _ in range(gates):
            mean = mean_of(differences(rng, assumption, drop, questions, rounds).tolist())
            if 100 * mean.upper(0.05) < limits["limits.pass_drop_points"]:
                passed += 1
            elif 100 * mean.lower(0.01) > limits["limits.fail_drop_points"]:
                failed += 1
        rows.append((drop, passed / gates, failed / gates))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=1_000, help="simulated gates a point")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--policy", choices=list(POLICIES), action="append", help="one policy; by default all of them")
    parser.add_argument("--discordance", type=float, help="answers that differ in another round of the baseline, percent")
    parser.add_argument("--rounds", type=int, help="rounds an arm; by default the policy's")
    options = parser.parse_args()
    if options.discordance is not None:
        ASSUMPTIONS.update({name: each * options.discordance / 100 for name, each in PER_DISCORDANCE.items()})
    begin = time.perf_counter()
    print(f"{options.gates} gates a point; largest standard error {50 / options.gates**0.5:.1f} points")
    for policy in options.policy or POLICIES:
        limits = POLICIES[policy]["accuracy"]
        below, above = limits["limits.pass_drop_points"], limits["limits.fail_drop_points"]
        rounds = options.rounds or ROUNDS[policy]
        print(f"\n{policy}: {QUESTIONS[policy]} questions, {rounds} rounds")
        print(f"PASS below {below} points (upper 95 %), FAIL above {above} (lower 99 %)")
        curves = {name: curve(policy, name, options.gates, options.seed, rounds) for name in ASSUMPTIONS}
        print("true drop" + "".join(f"   {name + ' PASS':>12} {'REVIEW':>7} {'FAIL':>7}" for name in curves))
        for index, drop in enumerate(DROPS):
            cells = ""
            for rows in curves.values():
                _, passed, failed = rows[index]
                cells += f"   {passed:12.3f} {max(0.0, 1 - passed - failed):7.3f} {failed:7.3f}"
            print(f"{drop:9.1f}{cells}")
    print(f"\n{time.perf_counter() - begin:.0f} s")


if __name__ == "__main__":
    main()
