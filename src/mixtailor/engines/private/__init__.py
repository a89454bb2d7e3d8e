"""Robust and private: three computing parties aggregate updates that none of them can read.

Clients need nothing but numpy. The parties need SecretFlow's SPU, the extra ``private``, in an
environment of their own: it needs numpy below 2 and Python below 3.12. The threat model is in
``docs/engines/private.md``.
"""

from mixtailor.engines.private.encoding import Encoding
from mixtailor.engines.private.parties import LocalParties, PartyError, PrivateAggregation
from mixtailor.engines.private.party import Outcome, Party
from mixtailor.engines.private.programs import check_private
from mixtailor.engines.private.shares import join, split

__all__ = [
    "Encoding",
    "LocalParties",
    "Outcome",
    "Party",
    "PartyError",
    "PrivateAggregation",
    "check_private",
    "join",
    "split",
]
