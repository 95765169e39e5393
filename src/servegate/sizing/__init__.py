"""How large, how many, how fast at best: arithmetic on a model's `config.json`, serving options and a card's row.

`shape` reads the matrices out of the config, `schemes` says in how many bytes each is kept, `kv` what a token costs, and
`predict` puts them together; `roofline` adds the ceilings of bandwidth and arithmetic. Everything is a pure function.
What a config does not settle raises `CannotSize` with the reason: nothing here guesses.
"""

from servegate.sizing.cannot import CannotSize
from servegate.sizing.cards import card_named, find_card, has_native_fp8
from servegate.sizing.predict import Prediction, Room, predict, predicted

__all__ = ["CannotSize", "Prediction", "Room", "card_named", "find_card", "has_native_fp8", "predict", "predicted"]
