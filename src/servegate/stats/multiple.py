"""Several claims at once: how sure one has to be of each so that all of them together are as sure as one.

Five tasks tested at 1 % each raise a false alarm in up to 5 % of the gates. Holm's procedure keeps the chance of any false
claim at the stated level, whatever the tasks have to do with each other.
"""

from __future__ import annotations

from collections.abc import Mapping


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return each claim's adjusted p in [0, 1]; a claim stands at level alpha when its adjusted p is at most alpha.

    Holm, Scandinavian Journal of Statistics 6 (1979) 65-70: the i-th smallest of m is multiplied by m - i + 1, and none is
    smaller than one before it.

    Raises:
        ValueError: a p outside [0, 1].
    """
    for name, p in p_values.items():
        if not 0 <= p <= 1:
            raise ValueError(f"p of {name} is {p}, outside 0 to 1")
    adjusted: dict[str, float] = {}
    largest = 0.0
    for index, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: (item[1], item[0]))):
        largest = max(largest, min(1.0, (len(p_values) - index) * p))
        adjusted[name] = largest
    return adjusted
