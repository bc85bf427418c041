"""What the API's event-level reports say of a tree, as measurements beside the aggregates.

A browser sends the event-level reports of a source as they are or, at the randomised trigger rate, those of a state
drawn from all that its registration allows: at most r reports, each with one of d trigger data and one of w windows. A
state's weights are its numbers of reports with each trigger data. Those of a state at random have the moments of
Pólya's urn: r balls, and a colour for each of the d·w cells and for no report.
"""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from attributary.api.ara.parse import Source, source
from attributary.api.ara.parse.source_header import output_states
from attributary.errors import InputError
from attributary.measurements import Measurements, leaf_families
from attributary.noise import RandomisedResponse, StateWeights
from attributary.tables.table_columns import arrow_table
from attributary.tree import Tree
from attributary.tree.match import nodes_of_level
from attributary.tree.paths import describe, text_labels
from attributary.types import Arrow, Frame, Ints

SOURCE_ID, TRIGGER_DATA = "source_event_id", "trigger_data"


def event_level_measurements(
    tree: Tree,
    header: str,
    sources: Frame,
    reports: Frame,
    trigger_data: Mapping[str, int],
    *,
    source_type: str = "navigation",
    expected: ArrayLike | None = None,
) -> Measurements:
    """What event-level reports say of a tree whose last attribute is told by their trigger data.

    `header` is the JSON that the sources were registered with, of which the fields for event-level reports count;
    `sources` is a table with a row for each source, whether it converted or not: its `source_event_id`, and the tree's
    attributes but the last. `reports` has the `source_event_id` and the `trigger_data` of each report, and the argument
    `trigger_data` those of each label of the last attribute. Variances depend on the true counts: on those `expected`,
    as an estimate gives them, else on the reports.

    At most `max_event_level_reports` conversions of a source are counted, by default 3 of a click and 1 of a view.
    Aggregates count the same ones if the spec's `conversions_per_impression` is the same, or if no source has more.
    """
    parsed = source(header, source_type)
    registered = parsed.value
    if registered is None:
        raise InputError(f"browsers refuse this source: {'; '.join(map(str, parsed.errors))}")
    if not registered.max_event_level_reports or not registered.trigger_data:
        raise InputError("these sources have no event-level reports; max_event_level_reports or trigger_data is empty")
    group, of_report, data = _events(tree, arrow_table(sources), arrow_table(reports), registered)
    column = _columns(tree, trigger_data, registered)
    reporting, at = np.unique(of_report, return_inverse=True)  # sources with reports, and their numbers of each data
    times = np.zeros((len(reporting), len(registered.trigger_data)))
    np.add.at(times, (at, data), 1)
    people = np.bincount(group, minlength=len(tree)).astype(np.float64)
    blocks = []
    for parent, nodes in leaf_families(tree):
        slot = np.full(len(tree), -1)
        slot[parent] = np.arange(len(parent))
        mine = slot[group[reporting]] >= 0
        of = slot[group[reporting]][mine]
        each = np.take_along_axis(times[mine], column[nodes][of], axis=1)
        sums, products = np.zeros(nodes.shape), np.zeros((*nodes.shape, nodes.shape[1]))
        np.add.at(sums, of, each)
        np.add.at(products, of, each[:, :, None] * each[:, None, :])
        response, weights = randomised(registered, nodes.shape[1])
        likely = None if expected is None else np.asarray(expected, np.float64)[nodes]
        blocks.append((parent, nodes, response.figures(people[parent], sums, products, weights, likely)))
    return Measurements.of_families(tree, blocks)


def randomised(registered: Source, labels: int) -> tuple[RandomisedResponse, StateWeights]:
    """The randomised response that a source's reports are, and what its states count of so many of the trigger data."""
    reports, windows = registered.max_event_level_reports, len(registered.event_report_windows.end_times)
    states = output_states(len(registered.trigger_data), windows, reports)
    colours = len(registered.trigger_data) * windows + 1
    share = windows / colours
    mean = np.full(labels, reports * share)
    spread = reports * share * (colours + reports) / (colours + 1)
    moment = np.outer(mean, mean) + spread * (np.eye(labels) - share)
    return RandomisedResponse.at(states, registered.event_level_epsilon), StateWeights(mean, moment)


def _events(tree: Tree, sources: Frame, reports: Frame, registered: Source) -> tuple[Ints, Ints, Ints]:
    """The group of each source, and the source and the place of the trigger data of each report."""
    group, above = nodes_of_level(tree, sources, len(tree.attributes) - 1), list(tree.attributes[:-1])
    if (group < 0).any() or (tree.level[tree.leaves] < tree.depth - 1).any():
        first = int(np.argmin(group))
        where = describe(above, [sources.column(name)[first].as_py() for name in above])
        raise InputError(
            f"sources are in groups of leaves, all at the last level; that of row {first + 1} is in {where}"
        )
    ids = text_labels(sources, SOURCE_ID)
    if len(ids.dictionary) < len(ids) or ids.null_count:
        raise InputError(f"every source has a {SOURCE_ID} of its own; some are repeated or missing")
    row = _places(reports, SOURCE_ID, ids.cast("string"))
    if (row < 0).any():
        raise InputError(f"{(row < 0).sum():,} of {len(row):,} reports are of sources that are not in the table")
    data = _places(reports, TRIGGER_DATA, [str(value) for value in registered.trigger_data])
    if (data < 0).any():
        strange = reports.column(TRIGGER_DATA)[int(np.argmin(data))].as_py()
        raise InputError(f"the sources' trigger data are {registered.trigger_data}; a report has {strange!r}")
    return group, row, data


def _places(table: Arrow, name: str, known: object) -> Ints:
    """Where each cell of a column, as text, is in a list; -1 where it is not."""
    place = pc.index_in(text_labels(table, name).cast(pa.string()), value_set=pa.array(known, pa.string()))
    return pc.fill_null(place, -1).to_numpy(zero_copy_only=False).astype(np.int64)  # type: ignore[no-any-return]


def _columns(tree: Tree, trigger_data: Mapping[str, int], registered: Source) -> Ints:
    """The place of each leaf's trigger data among those registered; 0 for other nodes."""
    place = {value: number for number, value in enumerate(registered.trigger_data)}
    labels = tree.labels[-1]
    names = labels.dictionary.cast("string").to_pylist()
    data = [trigger_data.get(name, -1) for name in names]
    for name, value in zip(names, data, strict=True):
        if value not in place or data.count(value) > 1:
            raise InputError(
                f"each label of {tree.attributes[-1]!r} has trigger data of its own, one of {registered.trigger_data}; "
                f"{name!r} has {trigger_data.get(name)}"
            )
    column = np.zeros(len(tree), np.int64)
    column[tree.slice(tree.depth - 1)] = np.array([place[value] for value in data])[labels.indices]
    return tree.from_level_order(column)
