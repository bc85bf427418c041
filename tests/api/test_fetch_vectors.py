"""make vectors: from local repositories, with files where the published ones have them, into what tests read."""

import json
import os
import subprocess
from collections import Counter
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pytest

from fetch_vectors import ORIGINS, Origin, fetch
from support.vectors import found, vectors

GIT = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}


def git(folder: Path, *arguments: str) -> str:
    made = subprocess.run(
        ["git", "-C", str(folder), *arguments], check=True, capture_output=True, text=True, env=os.environ | GIT
    )
    return made.stdout.strip()


# Files that the repositories have, as they list them, and where tests look for each: nowhere for those that are None.
AGGREGATION, LIBRARY = "privacysandbox/aggregation-service", "worker/testing/data/library"
ANDROID = "msft-mirror-aosp/platform.packages.modules.AdServices"
ASSETS = "adservices/tests/unittest/service-core/measurement/assets"
WFA = "world-federation-of-advertisers/cross-media-measurement"
POSTPROCESSING = "src/test/python/wfa/measurement/reporting/postprocessing"
GOLDENS = "javatests/testData/{}_goldens/{}/report_{}.json"
INTEROP = [
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
    "default_config",
    "event_report_window",
    "multiple_destinations",
    "rate_limit_max_attribution_reporting_endpoints",
    "rate_limit_max_attributions",
    "source_deactivation",
    "source_destination_limit_fifo",
    "source_destination_limit_fifo_and_destination_rate_limit",
    "top_level_filter_data",
]
PUBLISHED: dict[str, dict[str, str | None]] = {
    AGGREGATION: {
        "protocol/avro/reports.avsc": "avro-schemas",
        "protocol/avro/output_domain.avsc": "avro-schemas",
        "protocol/avro/results.avsc": "avro-schemas",
        "protocol/avro/debug_results.avsc": "avro-schemas",
        "sampledata/output_reports.avro": "sample-batch",
        "sampledata/output_debug_reports.avro": "sample-batch",
        "sampledata/output_domain.avro": "sample-batch",
        "sampledata/aggregate_result.json": "sample-batch",
        f"{LIBRARY}/input_set_attribution_1/batch.avro": "batch-1",
        f"{LIBRARY}/input_set_attribution_1/domain.avro": "batch-1",
        f"{LIBRARY}/expected_output_set_1/output.json": "batch-1",
        f"{LIBRARY}/input_set_attribution_4/batch.avro": None,
        f"{LIBRARY}/input_set_fledge_1/batch.avro": None,
        f"{LIBRARY}/expected_output_set_3/output.json": None,
        GOLDENS.format("aggregatable_report", "latest", 1): "golden-reports/latest",
        GOLDENS.format("aggregatable_report", "latest", "1_cleartext_payloads"): "golden-reports/latest",
        GOLDENS.format("aggregatable_report", "version_", 3): "golden-reports/version_",
        GOLDENS.format("aggregatable_report", "version_0.1", 7): "golden-reports/version_0.1",
        GOLDENS.format("private_aggregation_report", "latest", 5): "golden-private-aggregation/latest",
        GOLDENS.format("private_aggregation_report", "version_0.1", 9): "golden-private-aggregation/version_0.1",
        "javatests/testData/BUILD": None,
        "supported_versions.json": None,
    },
    ANDROID: {
        **{f"{ASSETS}/msmt_interop_tests/{case}.json": "interop" for case in INTEROP},
        f"{ASSETS}/msmt_interop_tests/null_aggregatable_report.json": None,
        f"{ASSETS}/msmt_e2e_tests/adr/aggregate_debug_report.json": None,
        f"{ASSETS}/attribution_service_test.json": None,
    },
    "WICG/attribution-reporting-api": {
        "ts/src/header-validator/source.test.ts": "header-validator",
        "ts/src/header-validator/trigger.test.ts": "header-validator",
        "ts/src/header-validator/filters.test.ts": "header-validator",
        "ts/src/flexible-event/privacy.test.ts": None,
    },
    "w3c/attribution": {
        "impl/e2e-tests/CONFIG.json": "w3c",
        "impl/e2e-tests/lookback.json": "w3c",
        "impl/e2e.schema.json": "w3c",
        "impl/package.json": None,
    },
    WFA: {
        f"{POSTPROCESSING}/tools/sample_report_summary.json": "noisy-reports",
        f"{POSTPROCESSING}/tools/sample_report_summary_v2.json": None,
    },
}


def published(base: Path, origin: Origin) -> Origin:
    """A repository with files where the published one has them, and a newer commit that is not the named one."""
    folder = base / origin.repository
    folder.mkdir(parents=True)
    git(folder, "init", "-q")
    for path in PUBLISHED[origin.repository]:
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    commit = git(folder, "rev-parse", "--short=8", "HEAD")
    for file in folder.rglob("*.json"):
        file.write_text("newer")
    git(folder, "commit", "-qam", "two", "--allow-empty")
    return replace(origin, commit=commit)


def test_every_repository_at_its_commit_fills_its_folders(tmp_path: Path) -> None:
    base, folder = tmp_path / "git", tmp_path / "vectors"
    origins = [published(base, origin) for origin in ORIGINS]
    assert {origin.repository for origin in ORIGINS} == set(PUBLISHED)
    expected = {
        f"{name}/{Path(path).name}": path for paths in PUBLISHED.values() for path, name in paths.items() if name
    }
    for _ in range(2):  # a second time brings nothing else
        counts = fetch(folder, str(base), origins)
        assert counts == Counter(path.rpartition("/")[0] for path in expected)
    everything = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    files = {file.as_posix(): (folder / file).read_text() for file in everything if ".git" not in file.parts}
    assert json.loads(files.pop("golden-reports/GOLDEN_TEST_KEY.json"))["private_key_base64"]
    checked_out = [files.pop(name) for name in list(files) if name.startswith(".repositories/")]
    assert files == expected and sorted(checked_out) == sorted(expected.values())


def test_the_vectors_beside_the_project_are_what_the_patterns_bring() -> None:
    """A folder that tests read, and that a repository has, is filled by a pattern that matches each of its files."""
    for origin in ORIGINS:
        for name in {name for _, name in origin.folders if name != "header-validator"}:  # TypeScript, read as JSON
            patterns = [pattern.rpartition("/")[2] for pattern, folder in origin.folders if folder == name]
            for file in vectors(name).iterdir():
                assert any(fnmatch(file.name, pattern) for pattern in patterns), (name, file.name)


def test_what_is_missing_is_told(tmp_path: Path) -> None:
    origin = published(tmp_path / "git", ORIGINS[0])
    schemas = ("protocol/avro/*.avsc", "x")
    for folders in ([("nowhere/*.json", "x")], [schemas, ("nowhere/*.json", "x")]):  # also into a folder that has some
        odd = replace(origin, folders=tuple(folders))
        with pytest.raises(FileNotFoundError, match="has no file nowhere"):
            fetch(tmp_path / "vectors", str(tmp_path / "git"), [odd])
    with pytest.raises(RuntimeError, match="git clone failed"):
        fetch(tmp_path / "other", str(tmp_path / "none"), [origin])


def test_vectors_are_looked_for_within_the_project_first(tmp_path: Path) -> None:
    within, beside = tmp_path / "vectors", tmp_path / "shared"
    for folder in (beside / "a", beside / "b", within / "a"):
        folder.mkdir(parents=True)
    assert found("a", (within, beside)) == within / "a" and found("b", (within, beside)) == beside / "b"
    assert found("c", (within, beside)) is None
