"""What a pull request changes, read from git: which serving configs, before and after, and by whose rules it is judged.

`repository` asks git, `pairing` turns its answers into pairs (pure), `arguments` takes an engine's arguments out of Helm
values, Kubernetes manifests and Compose files (pure). Nothing of the head is checked out: its serving configs are read as
blobs, and nothing else of it is read at all.
"""

from servegate.changes.arguments import Taken, take
from servegate.changes.pairing import Change, NotMeasured, Pair, Watched, pairs_of
from servegate.changes.repository import Blob, ChangesError, Repository

__all__ = ["Blob", "Change", "ChangesError", "NotMeasured", "Pair", "Repository", "Taken", "Watched", "pairs_of", "take"]
