"""What steers an arm's answers beside its weights: tokenizer, chat template, sampling defaults and stop ids.

A quantized checkpoint is another repository, and those files are copied along by hand. servegate renders every prompt on
the baseline and pins every sampling parameter, so a difference here changes nothing that is measured, and everything that
users get. So each file is reduced to what it means (a `tokenizer.json` that was only saved again is equal) and recorded
once the engine is ready, together with the commit that a hub id stood for at that moment.

How vLLM 0.32 reads them (`config/model.py`, `v1/engine/input_processor.py`): `--generation-config` is `auto` (the model's
file), `vllm` (its stop ids only) or a directory; `--override-generation-config` comes on top; the tokenizer's own
end-of-text token always stops, and `eos_token_id` of generation_config.json adds to it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from servegate.domain.arms import Arm
from servegate.domain.manifest import ServedFiles
from servegate.domain.plan import sha256_of, sha256_of_text
from servegate.domain.records import Json
from servegate.engines.paths import path_of
from servegate.engines.preflight import hub_cache

COMMIT = re.compile(r"[0-9a-f]{40}")
MAX_BYTES = 128 << 20
WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.pth", "*.gguf")
RAW_TOKENIZERS = ("tokenizer.model", "tekken.json", "vocab.json", "merges.txt", "vocab.txt", "tiktoken.model")
"""Files of tokenizers without a `tokenizer.json`; their bytes are compared."""
NO_EFFECT: dict[str, tuple[Json, ...]] = {
    "repetition_penalty": (1, 1.0), "presence_penalty": (0, 0.0), "frequency_penalty": (0, 0.0), "temperature": (1, 1.0),
    "top_k": (0, -1), "top_p": (1, 1.0), "min_p": (0, 0.0), "max_new_tokens": (),
}  # fmt: skip
"""What vLLM takes from a generation config, and the values that are its own defaults anyway."""


def served_files(arm: Arm, environment: Mapping[str, str]) -> ServedFiles:
    """Return what an arm serves beside the weights. Never raises: what can not be read carries its reason."""
    options = arm.config.options
    source = str(options.get("model", ""))
    root, commit, reason = _located(source, options.get("revision"), environment)
    reasons = {} if reason is None else {"commit": reason}
    tokenizer = str(options.get("tokenizer") or source)
    home = root
    if tokenizer != source or options.get("tokenizer-revision"):
        home = _located(tokenizer, options.get("tokenizer-revision") or options.get("revision"), environment)[0]
    if root is None or home is None:
        missing = f"the files of {source if root is None else tokenizer!r} are not on this machine"
        return ServedFiles(source=source, commit=commit, reasons={**reasons, "files": missing})
    read = _Reader(reasons)
    steering = options.get("generation-config")
    folder = root if steering in (None, "auto", "vllm") else path_of(str(steering))
    own = read.json(folder / "generation_config.json")
    merged = {**({} if steering == "vllm" else own), **read.mapping(options.get("override-generation-config"))}
    vocabulary, rest, ids = read.tokenizer(home)
    return ServedFiles(
        source=source,
        commit=commit,
        weights_sha256=_weights(root),
        vocabulary_sha256=vocabulary,
        tokenizer_sha256=rest,
        chat_template_sha256=read.chat_template(home, options.get("chat-template")),
        sampling_defaults={
            key: merged[key] for key, same in NO_EFFECT.items() if merged.get(key) is not None and merged[key] not in same
        },
        stop_ids=tuple(sorted({*_ids(own.get("eos_token_id")), *read.end_of_text(home, ids)})),
        reasons=dict(sorted(reasons.items())),
    )


def _located(source: str, revision: Json, environment: Mapping[str, str]) -> tuple[Path | None, str | None, str | None]:
    """Return (directory, commit, why there is no commit). `revision` None is the hub's `main`."""
    path = path_of(source)
    if path.is_dir():
        return path, None, "a directory on this machine has no commit"
    wanted = str(revision or "main")
    home = hub_cache(environment) / f"models--{source.replace('/', '--')}"
    commit = wanted if COMMIT.fullmatch(wanted) else None
    if commit is None:
        try:
            text = (home / "refs" / wanted).read_text(encoding="ascii", errors="replace").strip()
        except OSError:
            return None, None, f"the revision {wanted[:80]!r} of {source[:200]!r} is not in the hub cache"
        if not COMMIT.fullmatch(text):
            return None, None, f"the hub cache names no commit for the revision {wanted[:80]!r}"
        commit = text
    snapshot = home / "snapshots" / commit
    return (snapshot if snapshot.is_dir() else None), commit, None


def _weights(root: Path) -> str | None:
    """Hash names and sizes: enough to see that a directory was filled anew between two starts, and free."""
    found = sorted({(path.name, path.stat().st_size) for glob in WEIGHTS for path in root.glob(glob) if path.is_file()})
    return sha256_of([list(each) for each in found]) if found else None


def _ids(value: Json) -> set[int]:
    listed = value if isinstance(value, list) else [value]
    return {each for each in listed if type(each) is int}


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


class _Reader:
    """Reads the files of one model and keeps why one could not be read."""

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons

    def text(self, path: Path) -> str | None:
        """Return a file's text; None when there is none, or too much of it."""
        try:
            if path.stat().st_size > MAX_BYTES:
                self.reasons[path.name] = f"larger than {MAX_BYTES >> 20} MiB"
                return None
            return path.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return None
        except OSError as error:
            self.reasons[path.name] = f"cannot be read: {error.strerror}"
            return None

    def json(self, path: Path) -> dict[str, Any]:
        """Return a file's JSON object; an empty one when there is none."""
        text = self.text(path)
        return {} if text is None else self.mapping(text, path.name)

    def mapping(self, value: Json, name: str = "override-generation-config") -> dict[str, Any]:
        """Return an object, or the one that a text holds."""
        if isinstance(value, str):
            try:
                value = json.loads(value, parse_constant=str)
            except (ValueError, RecursionError):
                self.reasons[name] = "not JSON"
                return {}
        return value if isinstance(value, dict) else {}

    def tokenizer(self, root: Path) -> tuple[str | None, str | None, dict[str, int]]:
        """Return the hash of what the ids mean, the hash of how text becomes ids, and the ids of the added tokens."""
        whole = self.json(root / "tokenizer.json")
        if whole:
            model = whole["model"] if isinstance(whole.get("model"), dict) else {}
            meaning = {key: model[key] for key in ("vocab", "merges") if key in model}
            merges = _listed(meaning.get("merges"))  # written as "a b" or as ["a", "b"]
            meaning["merges"] = [" ".join(map(str, each)) if isinstance(each, list) else each for each in merges]
            added = [each for each in _listed(whole.get("added_tokens")) if isinstance(each, dict)]
            ids = {str(each.get("content")): each["id"] for each in added if type(each.get("id")) is int}
            # `truncation` and `padding` are written by whoever called the tokenizer last, and vLLM sets its own.
            way = {key: whole.get(key) for key in ("normalizer", "pre_tokenizer", "post_processor", "decoder")}
            kept = sorted(ids.items())
            vocabulary = meaning.get("vocab")
            known = {**vocabulary, **ids} if isinstance(vocabulary, dict) else ids
            return _hash(meaning), _hash([way, kept]), {key: each for key, each in known.items() if type(each) is int}
        found = {name: text for name in RAW_TOKENIZERS if (text := self.text(root / name)) is not None}
        if not found:
            self.reasons.setdefault("tokenizer", "the model's directory holds no tokenizer that is known")
            return None, None, {}
        return _hash(found), None, {}

    def chat_template(self, root: Path, option: Json) -> str | None:
        """Return the hash of the template that users' chats are rendered with: the option, else the file, else the config."""
        if isinstance(option, str) and option:
            path = path_of(option)
            named = self.text(path) if "\n" not in option and len(option) < 4_096 and path.is_file() else None
            return sha256_of_text(option if named is None else named)
        own = self.text(root / "chat_template.jinja")
        template: Json = own if own is not None else self.json(root / "chat_template.json").get("chat_template")
        if template is None:
            template = self.json(root / "tokenizer_config.json").get("chat_template")
        if template is None:
            self.reasons["chat_template"] = "the model has none"
            return None
        return sha256_of_text(template) if isinstance(template, str) else _hash(template)

    def end_of_text(self, root: Path, ids: Mapping[str, int]) -> set[int]:
        """Return the id of the tokenizer's own end-of-text token."""
        for name in ("tokenizer_config.json", "special_tokens_map.json"):
            token = self.json(root / name).get("eos_token")
            text = token.get("content") if isinstance(token, dict) else token
            if isinstance(text, str) and text in ids:
                return {ids[text]}
        self.reasons["stop_ids"] = "the id of the tokenizer's end-of-text token is not known"
        return set()


def _hash(value: Json) -> str:
    """Hash JSON of any content; lone surrogates pass as escapes."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
