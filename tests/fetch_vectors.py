"""Brings the published vectors that the conformance tests read: named repositories at named commits, by git, sparse.

    python tests/fetch_vectors.py vectors --base https://github.com

Each repository's own folders become the folders that the tests look for. The cases of the header validator are
TypeScript in their repository, and come as they are.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

GOLDENS = "javatests/testData/{}_report_goldens/"
LIBRARY = "worker/testing/data/library/"
INTEROP = "adservices/tests/unittest/service-core/measurement/assets/msmt_interop_tests/"
# Those whose rules hold for aggregatable reports; many of the others expect event-level reports alone.
INTEROP_CASES = (
    "default_config",
    "aggregatable_budget",
    "aggregatable_contributions_creation",
    "aggregatable_contributions_with_filtering_ids",
    "aggregatable_debug_reports_limits",
    "aggregatable_debug_reports_with_filtering_ids",
    "aggregatable_large_key",
    "aggregatable_report_source_registration_time",
    "aggregatable_report_window",
    "aggregatable_storage_limit",
    "aggregatable_with_event_disabled",
    "attribution_scopes_max_event_states_limit",
    "clamp_aggregatable_report_window",
    "event_report_window",
    "multiple_destinations",
    "rate_limit_max_attribution_reporting_endpoints",
    "rate_limit_max_attributions",
    "source_deactivation",
    "source_destination_limit_fifo",
    "source_destination_limit_fifo_and_destination_rate_limit",
    "top_level_filter_data",
)
# The key that Chromium publishes beside its golden reports (aggregatable_report_goldens/latest/private_key.txt).
GOLDEN_TEST_KEY = "z5KhjZ8Q71lHD5L7LDDLeOcBgNLX0DXv0RqUT4m/+Jw="


@dataclass(frozen=True)
class Origin:
    """A repository at a commit, and where its files go: patterns of paths, each with the folder for what matches."""

    repository: str
    commit: str
    licence: str
    folders: tuple[tuple[str, str], ...]


ORIGINS = (
    Origin(
        "privacysandbox/aggregation-service",
        "52086550",
        "Apache-2.0; the golden reports are Chromium's, BSD-3-Clause",
        (
            ("protocol/avro/*.avsc", "avro-schemas"),
            ("sampledata/*", "sample-batch"),
            (LIBRARY + "input_set_attribution_1/*.avro", "batch-1"),
            (LIBRARY + "expected_output_set_1/output.json", "batch-1"),
            *((GOLDENS.format("aggregatable") + f"{v}/*", f"golden-reports/{v}") for v in ("latest", "version_0.1")),
            (GOLDENS.format("aggregatable") + "version_/*", "golden-reports/version_"),
            (GOLDENS.format("private_aggregation") + "latest/*", "golden-private-aggregation/latest"),
            (GOLDENS.format("private_aggregation") + "version_0.1/*", "golden-private-aggregation/version_0.1"),
        ),
    ),
    Origin(
        "msft-mirror-aosp/platform.packages.modules.AdServices",  # a mirror of AOSP
        "593832a5",
        "the cases are Chromium's, BSD-3-Clause; Apache-2.0",
        tuple((INTEROP + f"{case}.json", "interop") for case in INTEROP_CASES),
    ),
    Origin(
        "WICG/attribution-reporting-api",
        "44a6da33",
        "W3C Software and Document; Apache-2.0",
        (("ts/src/header-validator/*.test.ts", "header-validator"),),
    ),
    Origin(
        "w3c/attribution",
        "9fab4e8e",
        "W3C Software and Document",
        (("impl/e2e-tests/*.json", "w3c"), ("impl/e2e.schema.json", "w3c")),
    ),
    Origin(
        "world-federation-of-advertisers/cross-media-measurement",
        "6ed2ed5d",
        "Apache-2.0",
        (
            (
                "src/test/python/wfa/measurement/reporting/postprocessing/tools/sample_report_summary.json",
                "noisy-reports",
            ),
        ),
    ),
)


def fetch(folder: Path, base: str, origins: Sequence[Origin] = ORIGINS) -> dict[str, int]:
    """Fills a folder from repositories below an address; how many files each of its folders got."""
    counts: dict[str, int] = {}
    for origin in origins:
        clone = folder / ".repositories" / origin.repository
        if not clone.exists():
            clone.parent.mkdir(parents=True, exist_ok=True)
            _git(
                None, "clone", "--quiet", "--filter=tree:0", "--no-checkout", f"{base}/{origin.repository}", str(clone)
            )
        _git(clone, "sparse-checkout", "set", "--no-cone", *(f"/{pattern}" for pattern, _ in origin.folders))
        _git(clone, "checkout", "--quiet", "--force", origin.commit)
        files = _git(clone, "ls-tree", "-r", "--name-only", "HEAD").splitlines()
        for pattern, name in origin.folders:
            matching = [file for file in files if _matches(file, pattern)]
            if not matching:
                raise FileNotFoundError(f"{origin.repository} at {origin.commit} has no file {pattern}")
            target = folder / name
            target.mkdir(parents=True, exist_ok=True)
            for file in matching:
                shutil.copyfile(clone / file, target / Path(file).name)
            counts[name] = counts.get(name, 0) + len(matching)
    if (folder / "golden-reports").is_dir():
        key = {"origin": "Chromium, a published test key", "private_key_base64": GOLDEN_TEST_KEY}
        (folder / "golden-reports" / "GOLDEN_TEST_KEY.json").write_text(json.dumps(key, indent=1) + "\n")
    return counts


def _matches(file: str, pattern: str) -> bool:
    """Whether a path matches; * stays within a folder."""
    return file.count("/") == pattern.count("/") and fnmatch(file, pattern)


def _git(clone: Path | None, *arguments: str) -> str:
    within = [] if clone is None else ["-C", str(clone)]
    done = subprocess.run(["git", *within, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"git {arguments[0]} failed: {done.stderr.strip().splitlines()[-1:] or ['']}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where the vectors go")
    parser.add_argument("--base", default="https://github.com", help="the address that repositories are below")
    given = parser.parse_args()
    try:
        for name, files in fetch(given.folder, given.base.rstrip("/")).items():
            sys.stdout.write(f"{name}: {files} files\n")
    except (RuntimeError, OSError) as error:
        sys.stderr.write(f"error: {error}; is {given.base} reachable? --base names another address\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
