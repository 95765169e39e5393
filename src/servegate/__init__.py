"""servegate: a gate for changes to how a language model is served.

A gate is a pure judgement over recorded evidence. Everything before the run directory gathers evidence,
everything after it is a function of it, and the run directory is the only thing that crosses.
"""

__version__ = "0.1.0"
