"""All benchmarks, one after the other: `make bench`, or `python -m bench denoise noise` for some."""

import importlib
import os
import platform
import sys

SUITES = (
    *("denoise", "breakdowns", "nonnegative", "prior", "posterior", "noise", "budget", "generate", "evaluate"),
    *("table", "logs", "values", "ara", "page", "explore", "cluster", "w3c"),
)

ALONE = ("large",)  # runs of many minutes, which are only run by name


def main(chosen: list[str]) -> None:
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores. Ratios hold for this run on this machine.")
    for suite in chosen or SUITES:
        if suite not in (*SUITES, *ALONE):
            sys.exit(f"there is no benchmark {suite!r}; there are {', '.join((*SUITES, *ALONE))}")
        importlib.import_module(f"bench.{suite}").main()


if __name__ == "__main__":
    main(sys.argv[1:])
