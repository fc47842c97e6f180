#!/usr/bin/env python3
"""Makes linux.csv of the reports that `pendulum-lab run bytes-grid|packets-grid|tcp-buffers … --format json` has written: collect.py REPORT… > linux.csv"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from reports import kept_up, ratio_error, reports  # noqa: E402

COLUMNS = (
    "kernel,down_bps,up_bps,propagation_ms,down_buffer,up_buffer,tcp_buffer,uploads,delayed_acks,cc,paced,"
    "length_s,download_bps,upload_bps,wait_mean_s,ratio,ratio_error"
)


def buffer(text):
    """A buffer so that they sort by their size."""
    return text[-1], int(text[:-1])


def row(kernel, case):
    params, measured = case["params"], case["measured"]
    window = params["tcp_buffer_bytes"]
    return (
        kernel,
        params["downlink_rate_bps"],
        params["uplink_rate_bps"],
        params["propagation_ms"],
        buffer(params["downlink_buffer"]),
        buffer(params["uplink_buffer"]),
        "" if window is None else window,
        params["uploads"],
        int(params["delayed_acks"]),
        params["cc"],
        int(params["paced"]),
        params["length_s"],
        round(measured["download_bps"]),
        round(measured["upload_bps"]),
        round(measured["queues"]["both"]["mean_s"], 4),
        round(measured["ratio"], 3),
        round(ratio_error(measured["parts"]), 4),
    )


rows = []
for name in sys.argv[1:]:
    for report in reports(Path(name).read_text()):
        for case in report["cases"]:
            if kept_up(case):
                rows.append(row(report["kernel"], case))
            else:
                print(f"{name}: {case['name']} left out, the machine did not keep up", file=sys.stderr)

print(COLUMNS)
# A link with its runs one after the other.
for cells in sorted(rows, key=lambda cells: (*cells[1:6], str(cells[6]).zfill(6), *cells[7:11], cells[0], cells[-2])):
    print(",".join(f"{cell[1]}{cell[0]}" if isinstance(cell, tuple) else str(cell) for cell in cells))
