#!/usr/bin/env python3
"""Makes points.csv of the reports that `pendulum-lab run points --only NAME --format json` has written: collect.py NAME.json… > points.csv"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from reports import kept_up, ratio_error  # noqa: E402

COLUMNS = (
    "name,kernel,cc,paced,delayed_acks,downloads,uploads,down_bps,up_bps,down_buffer,up_buffer,propagation_ms,d1_ms,u1_ms,"
    "length_s,download_bps,upload_bps,wait_mean_s,wait_p95_s,ratio_error"
)


def row(path, report):
    case = report["cases"][0]
    params, measured = case["params"], case["measured"]
    both = measured["queues"]["both"]
    millis = [round(params.get(name, 0) * 1000) for name in ("propagation_s", "d1_access_s", "u1_access_s")]
    return [
        path.stem,
        report["kernel"],
        params["cc"],
        # The letter of a set says whether its senders are paced; BBR always is.
        int(path.stem[0] in "pqbef"),
        int(params["delayed_acks"]),
        params["downloads"],
        params["uploads"],
        params["downlink_rate_bps"],
        params["uplink_rate_bps"],
        params["downlink_buffer"],
        params["uplink_buffer"],
        *millis,
        params["length_s"],
        round(measured["download_bps"]),
        round(measured["upload_bps"]),
        round(both["mean_s"], 5),
        round(both["p95_s"], 5),
        round(ratio_error(measured["parts"]), 4),
    ]


print(COLUMNS)
for path in sorted(Path(name) for name in sys.argv[1:]):
    report = json.loads(path.read_text())
    if kept_up(report["cases"][0]):
        print(",".join(str(cell) for cell in row(path, report)))
    else:
        print(f"{path}: left out, the machine did not keep up", file=sys.stderr)
