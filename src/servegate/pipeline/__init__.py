"""measure, compare, report, review, accept, calibrate: what a gate does, with everything it touches handed in as arguments.

Each reads and writes only the run directory, so any of them can run again later, elsewhere, without a GPU. The plan
comes from `config`, publishing is `publish`; the real engines and probes are made in `cli`.
"""

from servegate.pipeline.calibrating import calibration, read_aa
from servegate.pipeline.judging import compare, rejudged, report
from servegate.pipeline.measuring import Measuring
from servegate.pipeline.reviewing import accept, review

__all__ = ["Measuring", "accept", "calibration", "compare", "read_aa", "rejudged", "report", "review"]
