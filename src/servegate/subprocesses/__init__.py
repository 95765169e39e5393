"""Child processes: run one to its end, or keep one running; in both cases nothing of it is left afterwards.

`run` captures a bounded tool (a load generator, an evaluator); `supervise` keeps a server. Both go through the keeper
(see `keeper`), a small process that the kernel tells when servegate dies and that owns every descendant of the command,
so children are gone after a normal end, an exception, Ctrl-C, SIGTERM, two of them in a row, and SIGKILL.
"""

from servegate.subprocesses.run import Completed, run
from servegate.subprocesses.supervise import TAG, Supervised, carriers, supervise

__all__ = ["TAG", "Completed", "Supervised", "carriers", "run", "supervise"]
