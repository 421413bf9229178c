"""Runs the page's server until a signal ends it."""

import logging
import socket
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

import uvicorn
from cryptography import x509

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address
from fenchel_deploy.dashboard.access import Guard

FAREWELL_S: Final = 1
"""How long a stream may go on after the signal."""
MOST_CONNECTIONS: Final = 400

log = logging.getLogger(__name__)


def names_of(certificate: Path) -> frozenset[str]:
    """The names that a certificate is valid for."""
    try:
        loaded = x509.load_pem_x509_certificate(certificate.read_bytes())
        alternative = loaded.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except OSError as error:
        raise InvalidInput(f"{certificate} cannot be read: {error.strerror}") from error
    except x509.ExtensionNotFound:
        return frozenset()
    except ValueError:
        raise InvalidInput(f"{certificate} is not a certificate in PEM") from None
    names = alternative.get_values_for_type(x509.DNSName)
    addresses = map(str, alternative.get_values_for_type(x509.IPAddress))
    return frozenset(name.lower() for name in (*names, *addresses))


class _Server(uvicorn.Server):
    """Ends the streams of its pages at the signal; it would wait for them otherwise."""

    def __init__(self, config: uvicorn.Config, end: Callable[[], None]) -> None:
        super().__init__(config)
        self._end = end

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._end()
        super().handle_exit(sig, frame)


def serve_page(
    app: Guard, address: Address, *, certificate: Path | None, key: Path | None, listening: Callable[[str], None]
) -> None:
    """Serves the page; `listening` is told its address. Raises `InvalidInput` if it cannot listen there."""
    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        ssl_certfile=certificate,
        ssl_keyfile=key,
        timeout_graceful_shutdown=FAREWELL_S,
        limit_concurrency=MOST_CONNECTIONS,
    )
    try:
        config.load()
    except OSError as error:
        raise InvalidInput(f"the certificate or its key cannot be used: {error}") from error
    with _bound(address) as bound:
        port = bound.getsockname()[1]
        host = f"[{address.host}]" if ":" in address.host else address.host
        listening(f"{'http' if certificate is None else 'https'}://{host}:{port}/")
        _Server(config, app.end).run(sockets=[bound])


def _bound(address: Address) -> socket.socket:
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidInput(f"--listen: {address} cannot be found: {error.strerror}") from error
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(place)
        # Whoever is told the address may come before the server accepts connections.
        found.listen()
    except OSError as error:
        found.close()
        raise InvalidInput(f"--listen: cannot listen at {address}: {error.strerror}") from error
    return found
