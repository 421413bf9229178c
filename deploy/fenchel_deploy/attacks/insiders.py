"""Attacks of a party that follows the protocol: it reads its own tasks with the key that all parties have."""

import numpy as np

from fenchel_deploy.attacks.traces import Frame, Trace, trace
from fenchel_deploy.attacks.views import Array, KeyEyes, PartyView


def own_trace(view: PartyView) -> Trace:
    """All numbers in a party's own messages."""
    eyes = KeyEyes.of(view.secrets)
    family = view.config.algorithm_settings().family.name
    return trace(Frame.seen_by_party(view.layout), view.messages, eyes, family=family)


def labels_by_sign(view: PartyView) -> Array:
    """α_i has the sign of y_i: the label of each row by the last sign that its dual variable had, 0 if it had none."""
    labels = np.zeros(len(view.table.ids))
    for duals in own_trace(view).duals:
        signs = np.sign(np.where(np.abs(duals) > 1e-6, duals, 0.0))
        labels = np.where(signs != 0.0, signs, labels)
    return labels


def contributions_of_the_other(view: PartyView) -> list[Array]:
    """The model on the party's features minus the party's own contribution, round by round."""
    seen, eyes = own_trace(view), KeyEyes.of(view.secrets)
    own = {
        contribution.round_id: seen.frame.by_feature(contribution.vector.blocks, eyes.read(contribution.vector.vector))
        for contribution in seen.contributions
    }
    others = []
    for model in seen.models:
        # The model at the beginning of a round is the sum of the contributions at the end of the round before.
        before = [round_id for round_id in own if round_id < model.round_id]
        if before:
            whole = seen.frame.by_feature(model.vector.blocks, eyes.read(model.vector.vector))
            others.append(whole - own[max(before)])
    return others
