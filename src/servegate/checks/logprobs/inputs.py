"""Reads the corpus, the reference ladder and, when asked for, the user's own prompts.

A corpus is any UTF-8 text. Its bytes decide: line ends, odd spaces and control characters are scored as they stand. A form
feed separates documents. What cannot be text is an error that names the line.
"""

from __future__ import annotations

from servegate.checks.contract import ReadFile
from servegate.checks.logprobs.record import LogprobsInputs, Rung
from servegate.checks.logprobs.settings import LogprobsSettings
from servegate.checks.prompts.inputs import load as load_prompts
from servegate.checks.prompts.settings import PromptsSettings
from servegate.errors import UsageError
from servegate.text.utf8 import decoded

LADDER = "bundled:reference_ladder.tsv"
FORM_FEED = "\f"


def load(settings: LogprobsSettings, read_file: ReadFile) -> LogprobsInputs:
    """Return the documents of the corpus, not cut yet. Raises UsageError with file and line."""
    name = settings.corpus.file
    text = _text(name, read_file(name))
    documents = tuple(part for part in text.split(FORM_FEED) if part.strip())
    if not documents:
        raise UsageError(f"{name}: the corpus holds no text", advice="Give a text of at least a few thousand words.")
    own = settings.own_traffic
    traffic = load_prompts(PromptsSettings(file=own.file, max_tokens=own.max_tokens), read_file).prompts if own else ()
    return LogprobsInputs(documents=documents, traffic=traffic, ladder=read_ladder(read_file(LADDER)))


def _text(name: str, content: bytes) -> str:
    try:
        return decoded(content)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        raise UsageError(
            f"{name}:{line}: byte {column} of the line is not UTF-8 ({error.reason})", advice="Save the corpus as UTF-8."
        ) from None


def read_ladder(content: bytes) -> tuple[Rung, ...]:
    """Return the steps of the reference ladder: tab-separated, `#` begins a comment, an empty cell is not stated."""
    rungs = []
    for line in content.decode().split("\n"):
        if not line or line.startswith("#"):
            continue
        step, *cells = line.split("\t")
        numbers = [float(cell) if cell else None for cell in cells]
        rungs.append(Rung(step=step, ppl_ratio=numbers[0], same_top=numbers[1], rms_delta_p=numbers[2], kl_nats=numbers[3]))
    return tuple(rungs)
