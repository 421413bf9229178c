"""Inputs that once broke a decoder, each with the error that must refuse it now."""

import io
import json
import zipfile
from dataclasses import dataclass

import numpy as np

from fenchel.v1 import alignment_pb2, federation_pb2, setup_pb2, vectors_pb2
from fenchel_client.crypto.keyfile import private_key_to_bytes
from fenchel_client.crypto.plain import PlainCipher
from fenchel_common.errors import (
    FenchelError,
    InvalidConfig,
    InvalidInput,
    KeyFileError,
    KitIncomplete,
    MalformedCertificate,
    MalformedVector,
    ProtocolViolation,
)
from fenchel_common.layout import MAX_FEATURES
from fenchel_common.wire.parsing import MAX_ELEMENTS, MAX_LAYOUT_ELEMENTS
from fenchel_common.wire.vectors import vector_to_proto
from fuzz.wire_decoders import BITS, FORMAT, federation
from support import tagged
from support.keys import private_key

DEEP = b"[" * 3000
LONG_NUMBER = b"9" * 5000
X509_VERSION_3 = bytes.fromhex("a003020102")
ORGANISATION_AS_TEXT = b"\x55\x04\x0a\x0c"
ORGANISATION_AS_BITS = b"\x55\x04\x0a\x03"
P256 = bytes.fromhex("06082a8648ce3d030107")
EC_KEY = bytes.fromhex("06072a8648ce3d0201")


@dataclass(frozen=True)
class Vector:
    """`fault` is what the decoder did before it was mended."""

    decoder: str
    fault: str
    data: bytes
    refused_as: type[FenchelError]


def vectors() -> list[Vector]:
    return [*_configurations(), *_certificates(), *_keys(), *_shards(), *_messages()]


def _configurations() -> list[Vector]:
    found = []
    for decoder, error in (
        ("Federation.parse", InvalidInput),
        ("Federation.load", InvalidInput),
        ("RunConfig.from_toml", InvalidConfig),
        ("kit.read_settings", KitIncomplete),
    ):
        found.append(Vector(decoder, "RecursionError", b"a = " + DEEP, error))
        found.append(Vector(decoder, "ValueError (more than 4300 digits)", b"a = " + LONG_NUMBER, error))
    return found


def _certificates() -> list[Vector]:
    der = federation()["north"].certificate.der()
    altered = {
        "UnsupportedAlgorithm (curve)": der.replace(P256, P256[:-1] + b"\x63"),
        "UnsupportedAlgorithm (kind of key)": der.replace(EC_KEY, EC_KEY[:-1] + b"\x63"),
        "InvalidVersion": der.replace(X509_VERSION_3, X509_VERSION_3[:-1] + b"\x05"),
        "TypeError (a name that is a string of bits)": der.replace(ORGANISATION_AS_TEXT, ORGANISATION_AS_BITS),
    }
    assert all(data != der for data in altered.values())
    return [
        found
        for fault, data in altered.items()
        for found in (
            Vector("Certificate.from_der", fault, data, MalformedCertificate),
            Vector(
                "setup.introduction_from_bytes",
                fault,
                setup_pb2.Introduction(certificate=data, ephemeral_key=bytes(65), signature=b"x").SerializeToString(),
                MalformedCertificate,
            ),
        )
    ]


def _keys() -> list[Vector]:
    def altered(**changes: object) -> bytes:
        record = json.loads(private_key_to_bytes(private_key(BITS)))
        record["p"] |= changes
        return json.dumps(record).encode()

    return [
        Vector("keyfile.private_key_from_bytes", fault, data, KeyFileError)
        for fault, data in (
            ("RecursionError", DEEP),
            ("ZeroDivisionError", altered(large_factors=["0x0"])),
            ("hang: a prime of 200000 bits", altered(value=hex((1 << 200_000) | 1))),
        )
    ]


def _shards() -> list[Vector]:
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 2)})
    archives = {
        "MemoryError: an array of 16 TB announced": _archive({"X.npy": header.getvalue() + bytes(16)}),
        "AttributeError: a member that is no array": _archive({"ids.npy": b"text", "features.npy": b"text"}),
    }
    wrong = np.array([0xD800, 0x110000], dtype="<u4")
    for fault, character in zip(("UnicodeEncodeError", "SystemError: no such character"), wrong, strict=True):
        loose = io.BytesIO()
        ids = np.frombuffer(character.tobytes(), dtype="<U1")
        np.savez(loose, ids=ids, features=np.array(["age"]), X=np.array([[1.0]]))
        archives[fault] = loose.getvalue()
    whole = archives["MemoryError: an array of 16 TB announced"]
    # The method of compression is the third 16-bit field of the local header and the fourth of the directory's.
    for fault, position, value in (("NotImplementedError: version", 4, 110), ("NotImplementedError: method", 8, 77)):
        data = bytearray(whole)
        data[position] = data[whole.index(b"PK\x01\x02") + position + 2] = value
        archives[fault] = bytes(data)
    return [Vector("Shard.load", fault, data, InvalidInput) for fault, data in archives.items()]


def _archive(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _crowds() -> list[Vector]:
    """Messages of a few hundred kilobytes that became objects of many megabytes."""
    many, too_many_groups = MAX_ELEMENTS + 1, MAX_LAYOUT_ELEMENTS + 1
    too_many = alignment_pb2.AlignmentListing(
        elements=bytes(32), tag=bytes(32), features=bytes(16 * (MAX_FEATURES + 1))
    )
    layout = "alignment.client_layout_from_bytes"
    faults = [
        ("alignment.listing_from_bytes", "pseudonyms", too_many.SerializeToString()),
        ("alignment.listing_from_bytes", "empty pseudonyms one by one", b"\x0a\x00" * many),
        ("alignment.relay_from_bytes", "one character again and again", b"\x0a\x01a" * many),
        (layout, "empty messages", b"\x42\x00" * too_many_groups),
        (layout, "empty cohorts", b"\x62\x00" * too_many_groups),
        (layout, "numbers", _inside(7, b"\x01" * many)),
        ("setup.key_made_from_bytes", "empty messages", b"\x12\x00" * many),
        ("averaging.task_from_bytes", "messages in a message", _inside(1, b"\x1a\x00" * many)),
        ("hyfdca.primal_result_from_bytes (sealed)", "packed numbers", _inside(2, bytes(8 * many))),
    ]
    found = [Vector(decoder, f"memory: {fault}", data, InvalidInput) for decoder, fault, data in faults]
    certificates = Vector("ceremony.introductions_from_bytes", "memory", b"\x0a\x00" * many, MalformedCertificate)
    return [*found, certificates]


def _inside(number: int, content: bytes) -> bytes:
    """A field that holds these bytes; three bytes tell any length here."""
    length = len(content)
    return bytes([number << 3 | 2, length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14]) + content


def _messages() -> list[Vector]:
    tiny: vectors_pb2.Vector = vector_to_proto(tagged.encrypted(PlainCipher(BITS), np.zeros(3), FORMAT))
    tiny.plain.format.bound = 5e-324
    key = federation_pb2.TaskKey(run="../../outside", round=1, phase="finish").SerializeToString()
    return [
        *_crowds(),
        Vector("vectors.vector_from_proto", "OverflowError", tiny.SerializeToString(), MalformedVector),
        Vector("frames.key_from_proto", "a file outside of the party's folder", key, ProtocolViolation),
    ]
