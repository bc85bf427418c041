"""fingerprint: plans told apart by what decides how their reports are to be read, and files of another plan refused."""

import hashlib
import json

from attributary.errors import InputError


def digest(*parts: object) -> str:
    """16 hexadecimal digits of values that JSON can hold: the beginning of a SHA-256."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def refuse_other_plan(path: str, stated: str | bytes, fingerprint: str, name: str) -> None:
    """Refuses a file that states fingerprints of other plans, with commas between them; "" states none."""
    text = stated.decode(errors="replace") if isinstance(stated, bytes) else stated
    if text and fingerprint not in text.split(","):
        raise InputError(
            f"{path} is of plan {text[:100].replace(',', ' and ')}, and {name} is plan {fingerprint}: give the plan "
            "and the files that belong together"
        )
