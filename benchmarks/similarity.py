"""How much faster `similarity` is than difflib at difflib's own values, on pairs of about 1 KB, in one run.

    python benchmarks/similarity.py [--pairs 60]

Three kinds of pairs: one word changed (most answers that differ at a fact), words changed all over, and answers that part early
and never meet again. The budget is 10 times for all together; the values must be equal to the last bit.
"""

from __future__ import annotations

import argparse
import difflib
import random
import sys
import time
from collections.abc import Callable

from benchmarks.compare_report import WORDS

from servegate.text.similarity import similarity

BUDGET = 10


def pairs(kind: str, count: int) -> list[tuple[str, str]]:
    """Return seeded pairs of one kind."""
    rng = random.Random(kind)
    found = []
    for _ in range(count):
        words = [rng.choice(WORDS) for _ in range(190)]
        other = list(words)
        if kind == "one word":
            other[rng.randrange(190)] = "12"
        elif kind == "all over":
            for place in rng.sample(range(190), 12):
                other[place] = "net"
        else:
            other = words[:20] + [rng.choice(WORDS) for _ in range(170)]
        found.append((" ".join(words), " ".join(other)))
    return found


def timed(function: Callable[[str, str], float | None], both: list[tuple[str, str]]) -> tuple[float, list[float | None]]:
    """Return processor seconds and values."""
    begin = time.process_time()
    values = [function(left, right) for left, right in both]
    return time.process_time() - begin, values


def main() -> int:
    """Print the ratios; 1 when a value differs or the budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=60, help="pairs of each kind")
    options = parser.parse_args()
    slow = fast = 0.0
    for kind in ("one word", "all over", "parted early"):
        both = pairs(kind, options.pairs)
        expected_s, expected = timed(lambda a, b: difflib.SequenceMatcher(None, a, b, autojunk=False).ratio(), both)
        own_s, own = timed(similarity, both)
        if own != expected:
            sys.exit(f"{kind}: values differ from difflib's")
        slow, fast = slow + expected_s, fast + own_s
        print(f"{kind:13} difflib {expected_s / len(both) * 1e3:7.2f} ms a pair, {expected_s / own_s:6.1f} times as fast here")
    print(f"together      {slow / fast:.1f} times as fast (budget {BUDGET})")
    return 0 if slow / fast >= BUDGET else 1


if __name__ == "__main__":
    sys.exit(main())
