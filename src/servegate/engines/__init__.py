"""Engines: what serves an arm.

A new engine is one new module: an argv builder and a log parser, both pure and tested on recorded logs, around the
process that `server` starts, watches and stops. `vllm` is the first.
"""
