"""The nouns of servegate: frozen records with validation and arithmetic, nothing that touches the world.

`records` is the base; `arms` and `plan` say what will be done; `workload` is what probes send and receive;
`evidence` is what was measured; `judgement` is what it means; `blocks` is how a check speaks to the report.
"""
