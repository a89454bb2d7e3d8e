"""The audit trail: draws that anybody can check afterwards.

Before training the server publishes a commitment. Each round the rows are in hand before the draw, the draw follows
from them and from a secret that the commitment binds, and the log says so. At the end the secret is revealed, and
`verify` repeats every draw from the log alone.
"""

from mixtailor.intake.digests import digest_of, file_digest
from mixtailor.mixing.audit.merkle import Proof
from mixtailor.mixing.audit.receipts import Draw
from mixtailor.mixing.audit.signatures import SignedReceipt, WorkerKey
from mixtailor.mixing.audit.trail import AuditTrail
from mixtailor.mixing.audit.verification import Report, VerifiedDraw, verify

__all__ = [
    "AuditTrail",
    "Draw",
    "Proof",
    "Report",
    "SignedReceipt",
    "VerifiedDraw",
    "WorkerKey",
    "digest_of",
    "file_digest",
    "verify",
]
