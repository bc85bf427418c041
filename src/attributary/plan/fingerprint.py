"""fingerprint: a number of what decides how the reports of a plan are to be read, and the mark that its keys carry.

Attributes and their domains, contributions, limits, L1 and the API are in it; priors, errors, ε and what it was called
are not. Two plans with the same fingerprint read each other's reports.
"""

import hashlib
import json

from attributary.errors import InputError
from attributary.plan.plan import Plan

DOMAIN = {"name", "unknown", "domain", "range", "bucket", "buckets", "start"}  # what an attribute's values go by


def fingerprint(plan: Plan) -> str:
    """16 hexadecimal digits: the beginning of a SHA-256."""
    spec, api = plan.spec, plan.spec.api
    shares = zip(spec.asked, plan.measures, strict=True)
    return _digest(
        [spec.terms.kind, api and api.scheme, api and api.site, spec.noise, spec.l1, plan.levels],
        [attribute.model_dump(mode="json", include=DOMAIN, exclude_none=True) for attribute in spec.attributes],
        [[measure.name, measure.source, share.clip, share.default, share.roots] for measure, share in shares],
        [plan.most(), {root: plan.most(root) for root in plan.roots}],
        [] if plan.nodes is None else [plan.nodes.column(name).to_pylist() for name in _columns(plan)],
    )


def mark_of(plan: Plan) -> str:
    """What the keys of a plan begin with: 4 hexadecimal digits, of its fingerprint and of where its bits go."""
    return _digest([plan.fingerprint, *(field.model_dump(mode="json") for field in plan.keys or ())])[:4]


def refuse_other_plan(path: str, stated: str, plan: Plan, name: str) -> None:
    """Refuses a file that states the fingerprints of other plans, with commas between them; "" states none."""
    if stated and plan.fingerprint not in stated.split(","):
        raise InputError(
            f"{path} is of plan {stated[:100].replace(',', ' and ')}, and {name} is plan {plan.fingerprint}: give the "
            "plan and the files that belong together"
        )


def _columns(plan: Plan) -> list[str]:
    return [*(attribute.name for attribute in plan.spec.attributes), "contribution"]


def _digest(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
