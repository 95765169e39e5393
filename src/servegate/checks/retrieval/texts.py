"""Long prompts with one fact in them: plain sentences, and somewhere among them a pass key that is asked for at the end.

What an answer needs stands thousands of tokens before its first token, so nothing but the KV cache can have carried it:
a cache whose old entries are rounded too hard, read at a wrong place or cut off by a window loses it, while every short
prompt still looks right. The sentences hold no digits, so a number in an answer can only come from the fact.

Everything is drawn from a seed that names the prompt, so the same seed gives the same text on every machine.
"""

from __future__ import annotations

import random
import re

SENTENCES = (
    "A ferry crosses the lake whenever enough people wait.",
    "Nobody in the village locks the garden gates.",
    "The bakery opens before the first train leaves.",
    "Rain fell on the hills for most of the week.",
    "Two dogs sleep in front of the old school.",
    "The clock on the town hall runs a little slow.",
    "Children fly kites on the meadow behind the mill.",
    "An orchard grows where the quarry used to be.",
    "The postman knows every house by its colour.",
    "In winter the pond is covered with thin ice.",
    "A painter has rented the rooms above the shop.",
    "The library lends tools as well as books.",
    "Bees have moved into the hollow lime tree.",
    "On market days the square smells of bread.",
    "The bridge was painted green after a long debate.",
    "Most of the fields are sown with barley and clover.",
    "A choir practises in the barn on quiet evenings.",
    "The path along the river is closed at high water.",
    "Somebody leaves fresh flowers at the well.",
    "The tailor mends sails as well as coats.",
    "Swallows nest under the roof of the station.",
    "The mayor rides a bicycle without any brakes.",
    "Fog often hides the lighthouse until noon.",
    "An old piano stands in the corner of the inn.",
)
OPENING = "A text follows. One sentence in it names a pass key. Find the pass key and remember it."
QUESTION = "What is the pass key? Answer with the number only."
DIGITS = 5
NUMBER = re.compile(r"[0-9]+")
THINKING = "<think>"


def key_of(seed: str) -> str:
    """Return the pass key of a prompt: five digits, the first of them not 0."""
    return str(random.Random(f"key-{seed}").randrange(10 ** (DIGITS - 1), 10**DIGITS))  # noqa: S311 - a puzzle, not a secret


def text_of(seed: str, sentences: int, place: float) -> str:
    """Return a prompt of so many sentences with its fact at `place`, from 0 (before the first) to 1 (after the last)."""
    draw = random.Random(f"text-{seed}")  # noqa: S311 - a text, not a secret
    filler = [draw.choice(SENTENCES) for _ in range(sentences)]
    key = key_of(seed)
    where = round(place * sentences)
    fact = f"The pass key is {key}. Remember it: {key} is the pass key."
    return "\n\n".join((OPENING, " ".join((*filler[:where], fact, *filler[where:])), QUESTION))


def states(key: str, text: str) -> bool | None:
    """Return whether an answer states the key: the first number in it decides. None while it only thinks aloud.

    An answer that used up its tokens without a number did not state the key; it had room for it several times over.
    """
    visible = text
    if text.lstrip().startswith(THINKING):
        _, closed, visible = text.partition("</think>")
        if not closed:
            return None
    found = NUMBER.search(visible)
    return found is not None and found[0] == key
