"""Histogram: what a trigger contributes to the keys of the source it is attributed to."""

from collections.abc import Mapping, Set

from attributary.api.ara.client.filters import matches
from attributary.api.ara.parse import Trigger
from attributary.api.ara.wire.contribution import Contribution


def contributions(
    keys: Mapping[str, int], data: Mapping[str, Set[str]], age: float, trigger: Trigger
) -> tuple[Contribution, ...]:
    """One contribution for each of the source's keys that has a value, in the order of their names, as in Chromium.

    Each key is the source's piece OR the pieces of all trigger data that name it and whose filters the source, with
    this filter data and age in seconds, passes. Of several lists of values the first match counts.
    """
    values = next((v.values for v in trigger.aggregatable_values if matches(data, age, v.filters)), {})
    if not values:
        return ()
    whole = dict(keys)
    for datum in trigger.aggregatable_trigger_data:
        if matches(data, age, datum.filters):
            for name in datum.source_keys:
                if name in whole:
                    whole[name] |= datum.key_piece
    return tuple(
        Contribution(key, values[name].value, values[name].filtering_id)
        for name, key in sorted(whole.items())
        if name in values
    )
