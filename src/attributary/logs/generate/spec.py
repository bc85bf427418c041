"""spec: the file that asks for the shop's conversions by campaign, location and day."""

from attributary.logs.generate.shop import DAYS

SPEC = f"""\
# A generated shop, which does not exist: conversions by campaign > location > day.
epsilon = 1
neighbours = "definition-1"    # epsilon also hides on which day a conversion was
tau = 10
split_by = "campaign"          # every campaign has a budget split of its own

[[attribute]]
name = "campaign"              # known: an impression has it

[[attribute]]
name = "location"

[[attribute]]
name = "day"                   # of the week
unknown = true                 # only a conversion has it
domain = [{", ".join(f'"{day}"' for day in DAYS)}]

[logs]
impressions = "impressions.parquet"
conversions = "conversions.parquet"
user = "user"
time = "time"
window = "30d"
"""
