"""Instruments that a check points at an endpoint: completions, a load generator, an evaluator.

Each one answers a Protocol of `servegate.ports` and knows one outside tool or interface: vLLM's HTTP interface,
`vllm bench serve`, `lm_eval`. What came back is validated here; what it means is decided by the checks.
"""
