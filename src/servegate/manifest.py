"""Collects the environment of an arm: host, cards, driver, packages, and an allow-list of variables.

Nothing here is judged by itself; it scopes a verdict, and two arms measured in different environments are told apart
by it. A value that cannot be read carries its reason.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from collections.abc import Mapping
from pathlib import Path

import psutil

from servegate import __version__, nvml
from servegate.domain.arms import Arm
from servegate.domain.evidence import EngineFacts
from servegate.domain.manifest import Gpu, Manifest
from servegate.errors import RunnerError
from servegate.text.secret_names import is_secret

ALLOWED_VARIABLES = re.compile(
    r"(VLLM_[A-Z0-9_]+|CUDA_VISIBLE_DEVICES|CUDA_DEVICE_ORDER|NVIDIA_VISIBLE_DEVICES|HF_HUB_OFFLINE|TRANSFORMERS_OFFLINE"
    r"|OMP_NUM_THREADS|NCCL_[A-Z0-9_]+|TORCH_[A-Z0-9_]+|PYTORCH_[A-Z0-9_]+|LD_PRELOAD|TZ|LANG)"
)
"""Variables that may change what is served. Everything else, and any name that sounds like a secret, stays out."""
PACKAGES = ("servegate", "lm_eval", "numpy", "pandas", "scipy", "pydantic", "aiohttp")


def collect(arm: Arm, facts: EngineFacts, environment: Mapping[str, str]) -> Manifest:
    """Return the manifest of an arm served in this process's environment."""
    gpus, driver, cuda, reason = host_gpus()
    return Manifest(
        host=platform.node(),
        os=f"{_os_name()}, {platform.system()} {platform.release()}",
        cpu=_cpu_name(),
        cpu_count=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 2),
        gpus=gpus,
        gpus_reason=reason,
        driver=driver,
        driver_reason=None if driver else reason,
        cuda=cuda,
        cuda_reason=None if cuda else reason,
        packages={name: version for name in PACKAGES if (version := _version(name))},
        servegate=__version__,
        lm_eval=_version("lm_eval"),
        lm_eval_reason=None if _version("lm_eval") else "not installed beside servegate",
        engine={"kind": arm.engine_kind, "executable": arm.executable, "version": facts.version, "argv": list(facts.argv)},
        environment=allowed({**environment, **arm.environment}),
    )


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may be recorded, by name, sorted."""
    return {
        name: value for name, value in sorted(environment.items()) if ALLOWED_VARIABLES.fullmatch(name) and not is_secret(name)
    }


def host_gpus() -> tuple[tuple[Gpu, ...], str | None, str | None, str | None]:
    """Return cards, driver version, CUDA version of the driver, and the reason when there is none."""
    try:
        library = nvml.opened()
        if isinstance(library, nvml.Absent):
            return (), None, None, library.reason
        cards = tuple(
            Gpu(
                name=card.name,
                uuid=card.uuid,
                compute_capability=card.compute_capability,
                memory_gib=round(card.memory_bytes / 2**30, 2),
                mig=card.mig,
            )
            for card in library.devices()
        )
        driver, cuda = library.versions()
    except RunnerError as error:
        return (), None, None, error.what
    return cards, driver, cuda, None if cards else "the NVIDIA driver names no card"


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _os_name() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        return platform.system()


def _cpu_name() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1].strip() if match else platform.machine()
