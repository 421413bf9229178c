"""Ends a call with the status that its error stands for."""

import logging
from typing import NoReturn

import grpc

from fenchel_common.wire.status import ERROR_METADATA_KEY, status_of

logger = logging.getLogger(__name__)


def abort(context: grpc.ServicerContext, error: BaseException) -> NoReturn:
    """Aborts the call; an error that the table does not list is logged here and told to nobody."""
    code, details, name = status_of(error)
    if name is None:
        logger.error("a call from %s failed", context.peer(), exc_info=error)
    else:
        context.set_trailing_metadata(((ERROR_METADATA_KEY, name),))
    context.abort(code, details)
