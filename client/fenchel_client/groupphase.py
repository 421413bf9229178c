"""A party's answer to the phase `group_keys` of a run with masks."""

from fenchel_client.crypto.groupkeys import sealed_group_keys
from fenchel_client.table import PartyTable
from fenchel_common.errors import InvalidInput, Refusal
from fenchel_common.identity import Kit
from fenchel_common.ids import RunId
from fenchel_common.records import first_view
from fenchel_common.runconfig import RunConfig
from fenchel_common.setup import MaskSecrets
from fenchel_common.wire.alignment import client_layout_from_bytes
from fenchel_common.wire.groupkeys import group_keys_to_bytes


def group_keys_made(
    body: bytes,
    masks: MaskSecrets | None,
    *,
    kit: Kit,
    table: PartyTable,
    run: RunId,
    config: RunConfig,
    introductions: bytes | None,
) -> bytes:
    """The keys of the groups that the layout in `body` shows and whose first holder this party is, sealed."""
    if masks is None or introductions is None:
        raise Refusal("the server asks for keys of masks before there are any", public_reason="it has no masks")
    try:
        layout = client_layout_from_bytes(
            body, party=kit.client_id, samples=len(table.ids), features=len(table.features)
        )
    except InvalidInput as error:
        raise Refusal(str(error), public_reason=f"it refused its layout: {error}") from error
    if layout.clients != kit.roster.names:
        raise Refusal(
            "the layout names other parties than the roster", public_reason="it refused its layout: other parties"
        )
    view = first_view(
        terms=config.digest(),
        roster_fingerprint=kit.roster.fingerprint(),
        introductions=introductions,
        layout_root=layout.root,
    )
    return group_keys_to_bytes(sealed_group_keys(layout, masks, run=run, view=view), layout.clients)
