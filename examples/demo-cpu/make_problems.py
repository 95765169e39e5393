"""Write problems.json, the demo's accuracy task: small word problems with worked answers that end in `#### N`.

    python examples/demo-cpu/make_problems.py            # rewrites problems.json beside this file
    python examples/demo-cpu/make_problems.py --check    # exit 1 if the committed file differs from a regeneration
    python examples/demo-cpu/make_problems.py --questions 1319 --output big.json    # a task of GSM8K's size, for a GPU

Most problems take one step (a sum, a difference, equal groups), the last ones take two. They are sized for a model of 135 M
parameters: answered 5-shot it gets a good third of them right, so that a change of precision has both something to break and
something to mend. The answers have the form of GSM8K's (Cobbe et al. 2021, arXiv:2110.14168), because that is the form which
lm-eval's filters for GSM8K extract.

Numbers come from `Random.random` alone: it is the one method whose sequence Python promises to keep between versions
(docs.python.org/3/library/random.html, "Notes on Reproducibility").
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

SEED = 20250214
FEWSHOT_ROWS = 8
TEST_ROWS = {"add": 21, "subtract": 21, "groups": 14, "two_steps": 8}
"""64 test rows. A row that happens to repeat an earlier one is drawn again."""

NAMES = (
    "Amara", "Bruno", "Chloe", "Dmitri", "Elif", "Farid", "Greta", "Hiro", "Ines", "Jonas", "Kavya", "Liam",
    "Mateo", "Nadia", "Oscar", "Priya", "Quinn", "Rosa", "Samir", "Tara", "Umar", "Vera", "Wanda", "Yusuf",
)  # fmt: skip
THINGS = (
    "apples", "badges", "beads", "books", "buttons", "candles", "cups", "eggs", "flags", "keys", "lemons", "magnets",
    "marbles", "mugs", "nails", "pencils", "plums", "seeds", "shells", "spoons", "stamps", "stickers", "tickets", "tiles",
)  # fmt: skip
CONTAINERS = (
    ("bag", "bags"),
    ("basket", "baskets"),
    ("box", "boxes"),
    ("crate", "crates"),
    ("jar", "jars"),
    ("shelf", "shelves"),
)

Row = dict[str, str]


class Draw:
    """Seeded choices built on `Random.random` only."""

    def __init__(self, seed: int) -> None:
        """Start the sequence of a seed."""
        self._random = Random(seed)

    def number(self, low: int, high: int) -> int:
        """Return a whole number from low to high, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def name(self) -> str:
        """Return somebody's name."""
        return NAMES[self.number(0, len(NAMES) - 1)]

    def thing(self) -> str:
        """Return what is counted, in the plural."""
        return THINGS[self.number(0, len(THINGS) - 1)]

    def container(self) -> tuple[str, str]:
        """Return what things are kept in: singular and plural."""
        return CONTAINERS[self.number(0, len(CONTAINERS) - 1)]


def add(draw: Draw) -> Row:
    """Ask for a sum."""
    name, thing, first, second = draw.name(), draw.thing(), draw.number(3, 30), draw.number(2, 12)
    question = (
        f"{name} has {first} {thing} and buys {second} more. How many {thing} does {name} have now?",
        f"{name} found {first} {thing} in the morning and {second} {thing} in the afternoon. How many {thing} did {name} find?",
        f"There are {first} {thing} on the table. {name} puts {second} more on it. How many {thing} are on the table now?",
    )[draw.number(0, 2)]
    total = first + second
    return _row(question, f"{first} {thing} and {second} more. {first} + {second} = {total}.", total)


def subtract(draw: Draw) -> Row:
    """Ask for a difference."""
    name, thing, first = draw.name(), draw.thing(), draw.number(8, 30)
    second = draw.number(2, min(first - 2, 12))
    question = (
        f"{name} had {first} {thing} and gave away {second}. How many {thing} are left?",
        f"{name} needs {first} {thing} and already has {second}. How many more {thing} does {name} need?",
        f"A shop had {first} {thing}. {name} bought {second} of them. How many {thing} does the shop have now?",
    )[draw.number(0, 2)]
    left = first - second
    return _row(question, f"{first} {thing} less {second}. {first} - {second} = {left}.", left)


def groups(draw: Draw) -> Row:
    """Ask for the total of equal groups."""
    name, thing, (one, many) = draw.name(), draw.thing(), draw.container()
    count, each = draw.number(2, 9), draw.number(3, 12)
    question = (
        f"Each {one} holds {each} {thing}. {name} fills {count} {many}. How many {thing} are there in total?",
        f"{name} has {count} {many} with {each} {thing} in each {one}. How many {thing} does {name} have?",
    )[draw.number(0, 1)]
    total = count * each
    return _row(question, f"{count} {many} of {each} {thing}. {count} * {each} = {total}.", total)


def two_steps(draw: Draw) -> Row:
    """Ask for the total of equal groups, and then for a sum or a difference."""
    name, thing, (_, many) = draw.name(), draw.thing(), draw.container()
    count, each = draw.number(2, 6), draw.number(3, 10)
    total = count * each
    if draw.number(0, 1):
        more = draw.number(2, 12)
        question = f"{name} has {count} {many} of {each} {thing} and {more} loose {thing}. How many {thing} does {name} have?"
        return _row(
            question,
            f"{count} {many} of {each} {thing}. {count} * {each} = {total}. {total} + {more} = {total + more}.",
            total + more,
        )
    gone = draw.number(1, total - 1)
    question = f"{name} fills {count} {many} with {each} {thing} each and then sells {gone} {thing}. How many {thing} are left?"
    return _row(
        question,
        f"{count} {many} of {each} {thing}. {count} * {each} = {total}. {total} - {gone} = {total - gone}.",
        total - gone,
    )


MAKERS: dict[str, Callable[[Draw], Row]] = {"add": add, "subtract": subtract, "groups": groups, "two_steps": two_steps}


def shares(questions: int) -> dict[str, int]:
    """Return how many rows of each kind a task of so many questions has: the demo's shares, the rest to `add`."""
    demo = sum(TEST_ROWS.values())
    rows = {kind: questions * count // demo for kind, count in TEST_ROWS.items()}
    return {**rows, "add": rows["add"] + questions - sum(rows.values())}


def problems(seed: int = SEED, questions: int = sum(TEST_ROWS.values())) -> dict[str, list[Row]]:
    """Return the whole task: worked examples and test rows, no question twice."""
    rows = shares(questions)
    draw = Draw(seed)
    seen: set[str] = set()

    def fresh(kind: str) -> Row:
        while True:
            row = MAKERS[kind](draw)
            if row["question"] not in seen:
                seen.add(row["question"])
                return row

    one_step = ("add", "subtract", "groups")
    fewshot = [fresh(one_step[i % len(one_step)]) for i in range(FEWSHOT_ROWS)]
    # The one-step kinds take turns as long as their rows last, so that the first N questions are a fair sample of them.
    test = [
        fresh(kind)
        for turn in range(max(rows.values()))
        for kind in one_step
        if turn < rows[kind]
    ]  # fmt: skip
    test += [fresh("two_steps") for _ in range(rows["two_steps"])]
    return {"fewshot": fewshot, "test": test}


def document(questions: int = sum(TEST_ROWS.values())) -> str:
    """Return the exact text of a task file."""
    return json.dumps(problems(questions=questions), indent=1, ensure_ascii=True) + "\n"


def _row(question: str, steps: str, answer: int) -> Row:
    return {"question": question, "answer": f"{steps}\n#### {answer}"}


def main() -> int:
    """Write or check the file; return the exit code."""
    parser = argparse.ArgumentParser(description="Write problems.json beside this file")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the file is not up to date")
    parser.add_argument("--questions", type=int, default=sum(TEST_ROWS.values()), help="test rows to write")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("problems.json"))
    options = parser.parse_args()
    path = options.output
    if options.check:
        if path.is_file() and path.read_text(encoding="utf-8") == document():
            return 0
        print(f"{path} differs from what make_problems.py writes: run it and commit the result", file=sys.stderr)
        return 1
    path.write_text(document(options.questions), encoding="utf-8", newline="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
