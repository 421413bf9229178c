"""Keepalive: frequent enough for proxies, seldom enough for the server's own flood guard."""

from fenchel_client.transport import channel
from fenchel_server.transport import server

FOUR_MINUTES_MS = 4 * 60 * 1000


def test_both_sides_ping_before_a_proxy_drops_an_idle_connection() -> None:
    assert channel.KEEPALIVE_MS + channel.KEEPALIVE_TIMEOUT_MS < FOUR_MINUTES_MS
    assert server.KEEPALIVE_MS + server.KEEPALIVE_TIMEOUT_MS < FOUR_MINUTES_MS


def test_the_server_takes_the_clients_pings_for_what_they_are() -> None:
    assert server.MIN_CLIENT_PING_MS < channel.KEEPALIVE_MS
