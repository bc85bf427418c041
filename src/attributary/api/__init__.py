"""Attribution APIs: one seam, and one folder for each API behind it.

Commands and pipelines call this module, never an API directly. The spec names its API under [api]; `register` adds
another one. Planning needs only the API's `Terms`.

    clients = api.clients(plan)                             # the plan with its keys
    clients.impression({"campaign": "123"}).lines           # what a server answers to a client
    clients.query(tree)                                     # what is queried
    api.answer(plan, files, tree).measures["count"]         # what came back, as Measurements
"""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from attributary.errors import InputError
from attributary.spec.terms import DEFAULT, TERMS, with_its_defaults

if TYPE_CHECKING:
    from attributary.api.attribution_api import Aggregation, Answer, AttributionApi, Clients, SparkKeys
    from attributary.plan import Plan
    from attributary.spec import Spec
    from attributary.tree import Tree

# What is named as an API registers its terms, and these modules the API; imported when needed.
BUILT_IN = {"ara": "ara.adapter", "bigquery": "bigquery", "w3c": "w3c.page_calls"}
APIS: dict[str, "AttributionApi"] = {}


def register(api: "AttributionApi") -> None:
    """Makes an attribution API known by the kind of its terms: to specs, plans and commands."""
    APIS[api.terms.kind] = api
    TERMS[api.terms.kind] = api.terms


def load_terms(kind: str) -> None:
    """Registers the terms of a built-in API; of all of them, where there is none of that name."""
    for folder in [kind] if kind in BUILT_IN else BUILT_IN:
        import_module(f"{__name__}.{folder}")


def api_of(spec: "Spec") -> "AttributionApi":
    return api_of_kind(spec.terms.kind)


def api_of_kind(kind: str) -> "AttributionApi":
    if kind not in APIS:
        import_module(f"{__name__}.{BUILT_IN[kind]}")
    return APIS[kind]


def clients(plan: "Plan", **wishes: object) -> "Clients":
    """The plan with its keys, and what clients are told; an InputError where the API cannot carry the plan."""
    spec, api = plan.spec, api_of(plan.spec)
    _refuse_other_noise(plan.breakdowns[0])
    for attribute in spec.unknown if not api.terms.client_knows_delay else ():
        if spec.is_delay(attribute):
            raise InputError(
                f"{attribute.name!r} is the time from impression to conversion, which no client of the "
                f"{api.terms.title} can tell; leave it out"
            )
    if plan.parts and not api.several:
        raise InputError(f"clients of the {api.terms.title} take one breakdown; make a plan for each")
    return api.clients(plan, **wishes)


def _refuse_other_noise(plan: "Plan") -> None:
    terms, noise = api_of(plan.spec).terms, plan.spec.noise
    added = with_its_defaults({"api": dict(plan.spec.api or ())})["noise"]
    if noise != added:
        raise InputError(
            f'a plan for the {terms.title} has noise = "{added}"; this one has "{noise}": make a new plan, as its '
            "answers get no other noise"
        )


def answer(
    plan: "Plan", files: Sequence[str], tree: "Tree", rate: tuple[float, int] | None = None, name: str = "the plan"
) -> "Answer":
    """What the files of an answer say of the nodes that were queried: measurements of each measure, and notes.

    `rate` is the ε and the L1 of an answer that does not state its noise, if they are not the plan's; `name` is what
    messages call the plan.
    """
    _refuse_other_noise(plan)
    return api_of(plan.spec).answer(plan, files, tree, rate, name)


def on_spark(plan: "Plan") -> "SparkKeys":
    """The plan's keys on a cluster: workers make and write them, and read an answer."""
    if plan.parts or plan.others is not None:
        raise InputError("a cluster makes the keys of one breakdown; this plan is one of several")
    return api_of(plan.spec).on_spark(plan)


def aggregate(
    plan: "Plan | None",
    reports: str | Sequence[str],
    domain: object,
    ledger: str | None = None,
    *,
    output: str,
    **options: object,
) -> "Aggregation":
    """The summary report of a local aggregation service: reports in, noisy sums of the domain's keys out, once.

    `reports` are files, patterns or folders; `domain` is a file, several, or keys; the answer is written to `output`.
    What was queried is remembered in the `ledger`, a file (without one, that of the user): a query that was interrupted
    gives the same answer when it is repeated, one that was answered is not answered again, and any other query of the
    same reports is refused. The result says what became of the reports; all options are those of
    `attributary.api.ara.service.aggregation.aggregate`, among them `private_keys`, `epsilon` and `l1` (without a plan),
    `filtering_ids`, `most_errors` and `processes`.
    """
    used = api_of_kind(DEFAULT) if plan is None else api_of(plan.spec)
    if plan is not None:
        _refuse_other_noise(plan.breakdowns[0])
    return used.aggregate(plan, reports, domain, ledger, output=output, **options)
