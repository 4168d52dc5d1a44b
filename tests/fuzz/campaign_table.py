#!/usr/bin/env python3
"""campaign_table.py SLICES.LOG...: adds up the logs of campaign.sh and prints a table for README.md."""
import sys


def main():
    rows = {}
    for path in sys.argv[1:]:
        with open(path, encoding="ascii") as f:
            for line in f:
                target, commit, cpu_s, runs, _, crashes = line.split()
                row = rows.setdefault((target, commit[:9]), [0.0, 0, 0])
                row[0] += float(cpu_s)
                row[1] += int(runs)
                row[2] += int(crashes)
    print("| target | commit | CPU minutes | inputs run | crashes |\n|---|---|---:|---:|---:|")
    for (target, commit), (cpu_s, runs, crashes) in sorted(rows.items()):
        print(f"| `fuzz_{target}` | {commit} | {cpu_s / 60:.1f} | {runs:,} | {crashes} |")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
