"""The messages of the alignment and of layouts, with a valid one of each."""

from fenchel.v1 import alignment_pb2
from fenchel_common.data.categories import Vocabulary
from fenchel_common.ids import ClientId
from fenchel_common.setup import GroupKey
from fenchel_common.wire import alignment, groupkeys, names, pieces, vocabulary
from fuzz.decoder import Decoder
from fuzz.wire_decoders import of_bytes
from support.layouts import small_client_layout, small_federation_layout


def alignment_decoders() -> list[Decoder]:
    listed = alignment.TaggedList(bytes(32) + bytes(range(32)), bytes(range(100, 132)))
    features = bytes(16) + bytes(range(16))
    listing = alignment.Listing(features=features, has_labels=True, ids=listed, sealed_names=b"list")
    layout, held = small_federation_layout(), small_client_layout()
    preparations = [alignment.start_to_bytes(method) for method in alignment.AlignmentMethod]
    offers = {ClientId("north"): b"sealed", ClientId("south"): b"list"}
    start = alignment.start_to_bytes(alignment.AlignmentMethod.RING, offers)
    given, asked = vocabulary.vocabulary_given_to_bytes(b"sealed"), vocabulary.vocabulary_asked_to_bytes()
    words = Vocabulary({"pain": ("none", "très"), "sex": ()}, frozenset({"sex"}), frozenset({"age"}))
    on_its_way = [
        pieces.Piece(2, 0, 1),
        pieces.Piece(0, 1, 0, elements=bytes(64), tag=bytes(range(32))),
        pieces.Piece(1, 3, 0, sealed=bytes(28 + 32)),
    ]
    in_pieces = alignment.Listing(features, True, alignment.NO_LIST, samples=2, pieces=tuple(on_its_way[1:2]))
    relay, raised = alignment.relay_to_bytes(listed), alignment.raised_to_bytes(listed)
    group_keys = [GroupKey(held.clients, client, bytes(range(60))) for client in held.clients]
    with_keys = alignment.client_layout_to_bytes(held, group_keys)
    return [
        of_bytes(alignment_pb2.AlignmentStart, alignment.start_from_bytes, *preparations),
        of_bytes(alignment_pb2.AlignmentStart, vocabulary.start_vocabularies_from_bytes, start),
        of_bytes(alignment_pb2.Vocabulary, vocabulary.vocabulary_from_bytes, vocabulary.vocabulary_to_bytes(words)),
        of_bytes(alignment_pb2.VocabularyGiven, vocabulary.vocabulary_given_from_bytes, given),
        of_bytes(alignment_pb2.VocabularyAsked, vocabulary.vocabulary_asked_from_bytes, asked),
        of_bytes(
            alignment_pb2.AlignmentListing,
            alignment.listing_from_bytes,
            *map(alignment.listing_to_bytes, (listing, in_pieces)),
        ),
        of_bytes(
            alignment_pb2.NameList,
            names.name_list_from_bytes,
            names.name_list_to_bytes(names.NameList(("age", "größe"), (bytes(8), bytes(range(8))))),
        ),
        of_bytes(
            alignment_pb2.FeatureNames,
            names.feature_names_from_bytes,
            names.feature_names_to_bytes({ClientId("north"): b"sealed", ClientId("south"): b"list"}),
        ),
        of_bytes(alignment_pb2.NamesRead, names.names_read_from_bytes, names.names_read_to_bytes()),
        of_bytes(alignment_pb2.AlignmentRelay, alignment.relay_from_bytes, relay),
        of_bytes(alignment_pb2.AlignmentRaised, alignment.raised_from_bytes, raised),
        of_bytes(alignment_pb2.AlignmentWork, pieces.work_from_bytes, pieces.work_to_bytes(on_its_way)),
        of_bytes(
            alignment_pb2.AlignmentWorked, pieces.worked_from_bytes, pieces.worked_to_bytes(on_its_way[1:], bytes(32))
        ),
        of_bytes(
            alignment_pb2.FederationLayout,
            alignment.federation_layout_from_bytes,
            alignment.federation_layout_to_bytes(layout),
        ),
        of_bytes(
            alignment_pb2.ClientLayout,
            alignment.client_layout_from_bytes,
            alignment.client_layout_to_bytes(held),
            with_keys,
            party=held.party,
            samples=3,
            features=2,
        ),
        of_bytes(alignment_pb2.ClientLayout, groupkeys.sealed_keys_from_bytes, with_keys, clients=held.clients),
        of_bytes(
            alignment_pb2.GroupKeys,
            groupkeys.group_keys_from_bytes,
            groupkeys.group_keys_to_bytes(group_keys, held.clients),
            clients=held.clients,
        ),
    ]
