"""Ends a call with the gRPC status of an error."""

import logging
from typing import NoReturn

import grpc

from fenchel_common.wire.status import ERROR_METADATA_KEY, ROSTER_METADATA_KEY, status_of

logger = logging.getLogger(__name__)


def abort(context: grpc.ServicerContext, error: BaseException, *, roster_version: int | None = None) -> NoReturn:
    """Aborts the call. An error without a status of its own is logged here, and the caller gets no details of it.

    `roster_version` is the version of the roster by which the caller was judged; the caller gets it with the status.
    """
    code, details, name = status_of(error)
    if name is None:
        logger.error("a call from %s failed", context.peer(), exc_info=error)
    else:
        judged_by = () if roster_version is None else ((ROSTER_METADATA_KEY, str(roster_version)),)
        context.set_trailing_metadata(((ERROR_METADATA_KEY, name), *judged_by))
    context.abort(code, details)
