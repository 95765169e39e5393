"""Loads that fit into the context of both arms: a length that nobody stated gives way, a stated one is refused."""

from __future__ import annotations

from servegate.checks.contract import Choice, Inputs
from servegate.checks.lengths import FEWEST_TOKENS, SOURCE, Longest, shortened
from servegate.checks.throughput.settings import Single, ThroughputSettings

ADVICE = "Lower input_tokens or output_tokens, or serve with a longer max-model-len."
NAME = "checks.throughput"


def fit(settings: ThroughputSettings, _inputs: Inputs | None, longest: Longest) -> Choice:
    """Return settings whose loads fit.

    The load of a single user that nobody stated is shortened too, rather than left out: it is the one latency that a
    reader of the report meets as such, and its lengths stand beside it.

    Raises:
        UsageError: a load cannot fit, and its lengths are stated.
    """
    notes, sources = [], dict[str, str]()
    loads: tuple[tuple[str, str, ThroughputSettings | Single], ...] = (("", "load", settings),)
    if settings.single is not None:
        loads += (("single.", "load of one request in flight", settings.single),)
    found: dict[str, ThroughputSettings | Single] = {}
    for prefix, said, load in loads:
        asked = (load.input_tokens, load.output_tokens)
        keys = [f"{NAME}.{prefix}{name}" for name in ("input_tokens", "output_tokens")]
        fitting = shortened(asked, (longest.place(keys[0]) is not None, longest.place(keys[1]) is not None), longest.tokens)
        if fitting is None:
            stated = next((key for key in keys if longest.place(key) is not None), keys[0])
            least = "" if longest.tokens > 2 * FEWEST_TOKENS else f" (the least are {FEWEST_TOKENS} each)"
            longest.refuse(stated, f"{asked[0]:,} tokens of prompt and {asked[1]:,} of answer{least}", ADVICE)
        if fitting == asked:
            continue
        found[prefix] = load.model_copy(update={"input_tokens": fitting[0], "output_tokens": fitting[1]})
        sources |= {key: SOURCE for key, was, now in zip(keys, asked, fitting, strict=True) if was != now}
        notes.append(
            f"throughput: the {said} is {fitting[0]:,} tokens in and {fitting[1]:,} out, not {asked[0]:,} and {asked[1]:,}, "
            f"which do not fit into {longest.tokens:,} tokens of context ({longest.said})"
        )
    whole = found.get("", settings)
    assert isinstance(whole, ThroughputSettings)
    if "single." in found:
        whole = whole.model_copy(update={"single": found["single."]})
    return Choice(whole, "; ".join(notes), sources)
