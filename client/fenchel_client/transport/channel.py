"""The channel from a party to its server, and from the server to its own health service."""

import logging

import grpc

from fenchel_common.errors import InvalidInput
from fenchel_common.identity import Address, Kit
from fenchel_common.identity.certificates import server_key_host
from fenchel_common.wire.chunks import FLOW_CONTROL, MAX_MESSAGE_BYTES

KEEPALIVE_MS = 60_000
"""Well below the four minutes at which common proxies drop an idle connection."""
KEEPALIVE_TIMEOUT_MS = 20_000

logger = logging.getLogger(__name__)

_OPTIONS = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    *FLOW_CONTROL,
    ("grpc.keepalive_time_ms", KEEPALIVE_MS),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT_MS),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Every attempt makes a connection of its own, so that the session's back-off is the only one.
    ("grpc.use_local_subchannel_pool", 1),
)


def open_channel(kit: Kit, *, address: Address | None = None, insecure: bool = False) -> grpc.Channel:
    """A channel to the server whose key the kit's roster names; it presents the kit's certificate.

    Refuses a kit that is not valid at this moment, because the server's refusal of it during the TLS handshake would
    look like any broken connection. `address` replaces the one in the kit.
    """
    target = address or kit.server_address
    if insecure:
        if not target.loopback:
            raise InvalidInput(
                f"--insecure is for debugging on this machine alone and refuses to connect to {target};"
                " use 127.0.0.1, [::1] or localhost, or leave --insecure out"
            )
        logger.warning("INSECURE: no TLS to %s. Nothing is encrypted in transit.", target)
        return grpc.insecure_channel(str(target), options=(*_OPTIONS, ("grpc.enable_http_proxy", 0)))
    kit.verify()
    credentials = grpc.ssl_channel_credentials(
        root_certificates=kit.authority_pem, private_key=kit.key_pem, certificate_chain=kit.certificate_pem
    )
    # TLS is to find this name in the server's certificate, instead of the host's.
    name = server_key_host(kit.roster.server_key_fingerprint)
    return grpc.secure_channel(str(target), credentials, options=(*_OPTIONS, ("grpc.ssl_target_name_override", name)))
