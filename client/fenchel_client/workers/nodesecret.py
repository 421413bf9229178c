"""The secret that the operator placed on each node, and what is sealed under it on its way between nodes.

Keys, plaintexts and results are sealed: the cluster's scheduler, its object store and its logs hold no secret in clear.
Whoever can read the secret on a node, or the memory of a worker, has the key of the run.
"""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fenchel_common.errors import InvalidInput, WrongKey
from fenchel_common.framing import framed

VARIABLE: Final = "FENCHEL_NODE_SECRET"
"""The environment variable that names the file, at the party's client and where Ray is started on each node."""
SECRET_BYTES: Final = 32
LABEL: Final = b"fenchel node secret v1"
_NONCE_BYTES: Final = 12


class NodeSecret:
    """Seals and opens; what was sealed for one purpose does not open for another."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != SECRET_BYTES:
            raise InvalidInput(f"a node secret has {SECRET_BYTES} bytes, this one has {len(secret)}")
        self._secret = secret

    def __repr__(self) -> str:
        return "NodeSecret(hidden)"

    @classmethod
    def here(cls) -> "NodeSecret":
        """The secret of this node; `InvalidInput` if there is none, or others can read it."""
        name = os.environ.get(VARIABLE)
        if not name:
            raise InvalidInput(f"{VARIABLE} does not name the file with this node's secret; see docs/deploy.md")
        path = Path(name)
        try:
            mode, secret = path.stat().st_mode, path.read_bytes()
        except OSError as error:
            raise InvalidInput(f"the node secret {path} cannot be read: {error.strerror}") from None
        if stat.S_IMODE(mode) & 0o077:
            raise InvalidInput(f"others can read the node secret {path}; make its mode 0600")
        return cls(secret)

    def seal(self, content: bytes, *, purpose: bytes, context: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher(purpose, context).encrypt(nonce, content, None)

    def open(self, sealed: bytes, *, purpose: bytes, context: bytes) -> bytes:
        """The content; `WrongKey` if it was sealed under another secret, for another purpose, or was altered."""
        nonce, content = sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:]
        try:
            return self._cipher(purpose, context).decrypt(nonce, content, None)
        except (InvalidTag, ValueError):
            raise WrongKey("this node's secret is not that of the party's client, or the work was altered") from None

    def _cipher(self, purpose: bytes, context: bytes) -> AESGCM:
        info = framed(LABEL, purpose, context)
        return AESGCM(HKDF(SHA256(), SECRET_BYTES, salt=None, info=info).derive(self._secret))
