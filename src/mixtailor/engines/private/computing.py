"""One party's side of SecretFlow's SPU: shares in, programs on shares, shares out."""

import base64
import os
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor.engines.private.shares import PARTIES, Held, join

__all__ = ["Computing"]

_SHARE = "aby3.AShr<FM64>"


@final
class Computing:
    """A party's runtime of ABY3 over 64-bit integers.

    Parameters
    ----------
    rank : int
        Which party this is, 0 to 2.
    addresses : sequence of str
        Host and port of each party.
    timeout : float
        Seconds after which a party that sends nothing is given up.
    certificates : tuple of str, optional
        Paths of this party's certificate, its private key, and the authority that signed those of all three. Without
        them the parties' messages are in the clear: only for tests on one machine.
    """

    def __init__(
        self, rank: int, addresses: Sequence[str], *, timeout: float, certificates: tuple[str, str, str] | None = None
    ) -> None:
        try:
            import jax
            import spu
            from spu import libspu
        except ImportError:
            refuse(
                'A computing party needs `spu`. Install it with: pip install "mixtailor[private]", in an environment '
                "of its own (Python 3.11, numpy below 2)."
            )
        if len(addresses) != PARTIES:
            refuse(f"There are three parties, and {len(addresses)} addresses were given.")
        jax.config.update("jax_enable_x64", True)  # its compiler would cut integers to 32 bits
        options = libspu.logging.LogOptions()
        options.log_level, options.system_log_path = libspu.logging.LogLevel.ERROR, os.devnull
        libspu.logging.setup_logging(options)
        wiring = libspu.link.Desc()
        wiring.recv_timeout_ms = wiring.http_timeout_ms = int(1000 * timeout)
        for place, address in enumerate(addresses):
            wiring.add_party(f"party-{place}", address)
        if certificates is not None:
            wiring.enable_ssl = True
            for side in (wiring.client_ssl_opts, wiring.server_ssl_opts):
                side.cert.certificate_path, side.cert.private_key_path = certificates[:2]
                side.verify.ca_file_path, side.verify.verify_depth = certificates[2], 1
        self.rank = rank
        self._link = libspu.link.create_brpc(wiring, rank)
        settings = libspu.RuntimeConfig(libspu.ProtocolKind.ABY3, libspu.FieldType.FM64, 18)
        settings.share_max_chunk_size = 1 << 40  # one piece for each array
        self._runtime, self._spu, self._lib = spu.Runtime(self._link, settings), spu, libspu
        self._compiled: dict[Any, Any] = {}
        self._names: set[str] = set()

    def exchange(self, message: bytes) -> list[bytes]:
        """Send a message to both others, and get those of all three, in order."""
        texts = self._link.all_gather(base64.b64encode(message).decode())
        return [base64.b64decode(text) for text in texts]

    def put(self, name: str, shared: Held) -> None:
        """Hand the engine a share. What describes it is written here, never taken from a client."""
        lib, content = self._lib, np.stack([*shared], axis=-1).tobytes()
        meta, chunk, share = lib.ValueMeta(), lib.ValueChunk(), lib.Share()
        meta.data_type, meta.visibility, meta.storage_type = lib.DataType.DT_I64, lib.Visibility.VIS_SECRET, _SHARE
        meta.shape = list(shared.first.shape)
        chunk.total_bytes, chunk.chunk_offset, chunk.content = len(content), 0, content
        share.meta, share.share_chunks = meta.SerializeToString(), [chunk.SerializeToString()]
        self._runtime.set_var(name, share)
        self._names.add(name)

    def get(self, name: str) -> Held:
        """This party's share of a result."""
        lib, share = self._lib, self._runtime.get_var(name)
        meta, content = lib.ValueMeta(), b""
        meta.ParseFromString(share.meta)
        if meta.storage_type != _SHARE:
            raise RuntimeError(f"SPU returned {meta.storage_type} in place of {_SHARE}.")
        for piece in share.share_chunks:
            chunk = lib.ValueChunk()
            chunk.ParseFromString(piece)
            content += chunk.content
        both = np.frombuffer(content, np.uint64).reshape(*meta.shape.dims, 2)
        return Held(np.ascontiguousarray(both[..., 0]), np.ascontiguousarray(both[..., 1]))

    def run(
        self, key: Any, program: Callable[..., Any], inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]
    ) -> str:
        """Run a program on named shares; the name of its result. Programs are compiled once for each key."""
        import spu.utils.frontend as frontend

        secret = self._lib.Visibility.VIS_SECRET
        if key not in self._compiled:
            samples = [np.zeros(shape, np.int64) for shape in shapes]
            self._compiled[key], _ = frontend.compile(
                frontend.Kind.JAX, program, samples, {}, list(inputs), [secret] * len(inputs), lambda _: ["result"]
            )
        self._runtime.run(self._compiled[key])
        self._names.add("result")
        return "result"

    def open(self, name: str) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """Show a result to all three parties."""
        shared = self.get(name)
        parts = self.exchange(shared.first.tobytes())
        return join([np.frombuffer(part, np.uint64) for part in parts]).reshape(shared.first.shape)

    def clear(self) -> None:
        """Forget all shares."""
        for name in self._names:
            self._runtime.del_var(name)
        self._names.clear()
