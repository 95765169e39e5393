"""Fakes speak the real protocol over loopback; each says in its first lines which version's shapes it follows.

The fake engine ships with servegate (`servegate fake-engine`), so it lives in `servegate.engines.fake_vllm`.
"""

from servegate.engines.rehearsal import install

__all__ = ["install"]
