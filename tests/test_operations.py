"""The scripts of docs/operations.md on seven generated days: new campaigns, a late report, a new plan, accidents."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from attributary.api.ara.registration import Registrations, registrations
from attributary.api.ara.wire.avro import write_reports
from attributary.browsers import Attribution, Client, report
from attributary.plan import Plan
from attributary.tables import read_table

PAGE = (Path(__file__).parent.parent / "docs" / "operations.md").read_text(encoding="utf-8")
SPEC = """
epsilon = 8
[[attribute]]
name = "campaign"
[[attribute]]
name = "weekday"
unknown = true
calendar = "weekday"
timezone = "Europe/Berlin"
[logs]
window = "1d"
"""
SHOP, NEWS, ADS = "https://shop.example", "https://news.example", "https://ads.example"
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = {day: TODAY + timedelta(days=day - 7 if day < 7 else 1) for day in range(1, 8)}  # no day is today, the restore's
KILLED = """#!{python}
import os, signal, sys
from attributary.api.ara.service import aggregation
from attributary.cli import main
aggregation.write_summary = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
main(sys.argv[1:])
"""


def campaigns(day: int) -> dict[str, int]:
    """Conversions of each campaign on a day: two campaigns, and a third from the third day on."""
    return {"autumn": 40 + 10 * day, "brand": 40} | ({"coupon": 20} if day > 2 else {})


class Week:
    """A folder with the scripts, the reports of each day, and the truth."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.truth, self.rng = folder, Counter[tuple[str, str]](), Random(7)
        for title, body in re.findall(r'^```sh title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL):
            (folder / title).write_text(body)
        for name in ("impressions", "reports", "days", "bin", "killed"):
            (folder / name).mkdir()
        (folder / "spec.toml").write_text(SPEC)
        call = f'#!/bin/sh\nexec {sys.executable} -m attributary.cli "$@"\n'
        for name, text in (("bin", call), ("killed", KILLED.format(python=sys.executable))):
            (folder / name / "attributary").write_text(text)
            (folder / name / "attributary").chmod(0o755)

    def run(self, *command: str, code: int = 0, path: str = "bin") -> str:
        places = f"{self.folder / path}{os.pathsep}{os.environ['PATH']}"
        env = {**os.environ, "PATH": places, "NO_COLOR": "1"}
        done = subprocess.run(command, cwd=self.folder, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stderr

    def day(self, day: int, seen: Registrations, done: Registrations, late: list[Attribution]) -> None:
        """Writes the impressions and reports of a day; of conversions in the evening, their sources are of `seen`."""
        lines, sent = ["campaign"], list(late)
        for campaign, number in campaigns(day).items():
            lines.append(campaign)
            for i in range(number):
                moment = DAYS[day] + timedelta(hours=12, minutes=self.rng.randrange(500))
                sent += self.convert(campaign, moment, seen if i % 4 == 0 else done, done)
        (self.folder / "impressions" / f"{day}.csv").write_text("\n".join(lines) + "\n")
        write_reports(str(self.folder / "reports" / f"{day}.avro"), [report(each) for each in sent])

    def convert(self, campaign: str, moment: datetime, seen: Registrations, done: Registrations) -> list[Attribution]:
        """A click and its conversion an hour later, which is counted, in a browser of its own."""
        then, client = moment + timedelta(hours=1), Client(rng=Random(self.rng.random()))
        label = done.plan.spec.attributes[1].label_at(then, moment.date())
        source, trigger = seen.source({"campaign": campaign}, SHOP), done.trigger({"weekday": label})
        client.source(json.dumps(source), page=NEWS, reporter=ADS, time=int(moment.timestamp() * 1000))
        client.trigger(json.dumps(trigger), page=SHOP, reporter=ADS, time=int(then.timestamp() * 1000))
        self.truth[campaign, f"{then.astimezone(ZoneInfo('Europe/Berlin')):%A}"] += 1
        return client.sent()

    def read(self, name: str) -> dict[str, object]:
        found: dict[str, object] = json.loads((self.folder / name).read_text())
        return found


@pytest.fixture
def week(tmp_path: Path) -> Week:
    return Week(tmp_path)


def test_a_week_with_all_that_may_happen(week: Week) -> None:
    folder = week.folder
    prior = [
        f"{name},{day},{(i == 0 and 500) or ''},20"
        for name in ("autumn", "brand")
        for i, day in enumerate(("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"))
    ]
    (folder / "prior.csv").write_text("\n".join(["campaign,weekday,impressions,conversions", *prior]) + "\n")
    week.run("attributary", "plan", "spec.toml", "--prior", "prior.csv", "-o", "plan.json", "-q")
    week.run("attributary", "keys", "plan.json", "-q")
    old = registrations(Plan.load(str(folder / "plan.json")))
    for day in (1, 2, 3):
        week.day(day, old, old, [])
        week.run("sh", "day.sh", str(day))
    assert week.read("days/3/aggregate.json")["exit_code"] == 0

    # A new plan from what was measured. On day 4, a quarter of the conversions have impressions of the old one.
    week.run("sh", "week.sh", "1", "2", "3")
    assert (folder / "week.html").read_text().count("coupon")
    week.run("attributary", "plan", "spec.toml", "--prior", "week.parquet", "--method", "equal", "-o", "new.json", "-q")
    week.run("attributary", "keys", "new.json", "-q")
    new = registrations(Plan.load(str(folder / "new.json")), old.plan)
    week.day(4, old, new, [])
    week.run("sh", "switch.sh", "4", "plan.json", "new.json")

    # A report of the second day comes on the fifth: it is left out, and counted.
    noon = DAYS[2] + timedelta(hours=13)
    counted = week.truth.copy()
    late = [each for each in week.convert("brand", noon, old, old) if each.contributions]
    week.truth = counted
    week.day(5, new, new, late)
    week.run("sh", "day.sh", "5", "new.json")
    tally = week.read("days/5/aggregate.json")["tally"]
    assert isinstance(tally, dict) and tally["skipped"] == len(late) == 1
    shutil.copy(folder / "ledger.sqlite", folder / "backup.sqlite")

    # A job is killed after spending, before writing: its summary names the stage, and the same command has the answer.
    week.day(6, new, new, [])
    week.run("sh", "day.sh", "6", "new.json", code=128 + signal.SIGKILL, path="killed")
    left = week.read("days/6/aggregate.json")
    assert (left["exit_code"], left["stage"]) == (None, "writing") and not (folder / "days/6/summary.avro").exists()
    week.run("sh", "day.sh", "6", "new.json")
    first = (folder / "days/6/summary.avro").read_bytes()
    (folder / "days/6/summary.avro").unlink()  # and is lost
    week.run("sh", "day.sh", "6", "new.json")
    assert (folder / "days/6/summary.avro").read_bytes() == first

    # The ledger is restored from the copy of day 5: what it may not know is refused, what comes later goes on.
    shutil.copy(folder / "backup.sqlite", folder / "ledger.sqlite")
    again = ("--domain", "days/6/domain.avro", "--ledger", "ledger.sqlite", "--epsilon", "4", "-o", "again.avro")
    refused = week.run("attributary", "aggregate", "new.json", "reports/6.avro", *again, code=77)
    assert "was restored at" in refused and not (folder / "again.avro").exists()
    week.day(7, new, new, [])
    week.run("sh", "day.sh", "7", "new.json")

    # The week: every sum is the truth, to the noise that is stated.
    parts = [("plan.json", day, f"days/{day}") for day in (1, 2, 3)]
    parts += [("plan.json", 4, "days/4/old"), *(("new.json", day, f"days/{day}") for day in (4, 5, 6, 7))]
    args = [
        word
        for plan, day, tree in parts
        for word in (plan, f"days/{day}/summary.avro", "--tree", f"{tree}/tree.parquet")
    ]
    week.run("attributary", "denoise", *args, "-o", "week.parquet")
    week.run("attributary", "report", "week.parquet", "-o", "week.html", "-q")
    rows = read_table(str(folder / "week.parquet")).to_pylist()
    assert {row["campaign"] for row in rows} == set(campaigns(7)) and len(rows) == 3 + 3 * 7
    for row in rows:
        days = [row["weekday"]] if row["weekday"] else {day for _, day in week.truth}
        true = sum(week.truth[row["campaign"], day] for day in days)
        assert abs(row["estimate"] - true) < 7 * np.sqrt(row["variance"]), (row, true)
    assert sum(week.truth.values()) > 700 and max(row["variance"] for row in rows) < 400
    assert not list(folder.rglob(".attributary-*"))
