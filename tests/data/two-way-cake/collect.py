#!/usr/bin/env python3
"""Makes points.csv of what `pendulum-lab run cake-points … --format json` has written, one report after the other: collect.py OUTPUT… > points.csv"""

import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from reports import ratio_error, reports  # noqa: E402

COLUMNS = (
    "name,kernel,cc,delayed_acks,downloads,uploads,down_bps,up_bps,down_buffer,ack_filter,isolation,propagation_ms,d1_ms,u1_ms,"
    "length_s,download_bps,upload_bps,wait_mean_s,wait_p95_s,sparse_mean_s,sparse_p95_s,ratio_error"
)


def row(report):
    case = report["cases"][0]
    params, measured = case["params"], case["measured"]
    parts = measured["parts"]
    # Of TCP alone: the whole stretch counts the probe too.
    download, upload = (statistics.mean(part[f"{way}_bps"] for part in parts) for way in ("download", "upload"))
    both = measured["queues"]["both"]
    propagation, d1, u1 = (params.get(name, 0) for name in ("propagation_s", "d1_access_s", "u1_access_s"))
    probe = case["truth"]["udp"][0]["report"]
    return [
        case["name"],
        report["kernel"],
        params["cc"],
        int(params["delayed_acks"]),
        params["downloads"],
        params["uploads"],
        params["downlink_rate_bps"],
        params["uplink_rate_bps"],
        params["downlink_buffer"],
        *params["cake"].split(),
        *(round(seconds * 1000) for seconds in (propagation, d1, u1)),
        params["length_s"],
        round(download),
        round(upload),
        round(both["mean_s"], 5),
        round(both["p95_s"], 5),
        # One way: the wires between U2 and U1 are no queue.
        round(probe["delay_mean_s"] - propagation - u1, 5),
        round(probe["delay_p95_s"] - propagation - u1, 5),
        round(ratio_error(parts), 4),
    ]


print(COLUMNS)
rows = [row(report) for name in sys.argv[1:] for report in reports(Path(name).read_text())]
for cells in sorted(rows):
    print(",".join(str(cell) for cell in cells))
