"""A random sample of links for `scenario.cc`: what differs between users' links, drawn from a seed.

The same seed gives the same links. Each is a dictionary of the scenario's parameters, and `name`, a word for its traffic.
"""

import random

# Downlink and uplink, bit/s: links of the papers, DSL, cable, symmetric ones. Half of the sample has others, drawn at random.
RATES = [(10_000_000, 10_000_000), (8_000_000, 1_000_000), (2_400_000, 600_000), (2_400_000, 196_000), (2_400_000, 2_400_000),
         (20_000_000, 2_000_000)]
SEGMENT = 1500

# Traffic and how often it is drawn. What papers and users have most often comes most often.
KINDS = {"two_way": 10, "several": 5, "upload": 2, "download": 2, "udp_upload": 2, "call": 1, "turns": 2, "quiet": 1, "changing": 1}


# The same links with other traffic or buffers: what is changed in each.
VARIANTS = {
    "udp-130": {"kind": "udp_130"},
    "changing": {"kind": "changing"},
    "head-drop": {"qd": "head", "qu": "head"},
    "fq-up": {"qu": "fq_codel"},
    "fq-down": {"qd": "fq_codel"},
}


def draw_link(seed, number, variant=None):
    """Link `number` of the sample `seed`, or a variant of it."""
    change = dict(VARIANTS[variant]) if variant else {}
    rng = random.Random(f"pendulum captures {seed} {number}")
    if rng.random() < 0.5:
        down, up = rng.choice(RATES)
    else:
        down = int(10 ** rng.uniform(6.0, 7.3))
        up = int(down / 10 ** rng.uniform(0.0, 1.1))
    kind = rng.choices(list(KINDS), list(KINDS.values()))[0]
    kind = change.pop("kind", kind)
    link = {
        "name": kind,
        "T": 90,
        "cd": down,
        "cu": up,
        "tp": rng.choice([0, 0, 1, 5, 15]),
        "bd": buffer(rng, down),
        "bu": buffer(rng, up),
        "delack": rng.choice([1, 2, 2]),
        "btcp": rng.choice([262_144, 1_048_576]),
        "timestamps": rng.random() < 0.9,
        "seed": rng.randrange(1, 1 << 16),
    }
    algorithm = rng.choices(["TcpLinuxReno", "TcpCubic", "TcpBbr"], [6, 3, 1])[0]
    far = [rng.choice([1, 5, 10, 20, 40]) for _ in range(4)]
    flows = FLOWS[kind](rng, link, algorithm)
    # Each transport has its own far host: one host has one congestion control.
    link["far"] = ",".join(str(ms) for ms in far)
    link["flows"] = ";".join(":".join(str(cell) for cell in flow) for flow in flows)
    if kind == "changing":
        link["changes"] = f"40:D:{int(down * rng.uniform(0.5, 0.8))};70:U:{int(up * rng.uniform(0.5, 0.8))}"
    return link | change


def buffer(rng, rate):
    """A drop-tail buffer that a full packet passes in 60 ms to 1.2 s, at least five packets; in bytes or packets."""
    packets = max(5, int(rate / 8 * 10 ** rng.uniform(-1.2, 0.08) / SEGMENT))
    return f"{packets}p" if rng.random() < 0.5 else f"{packets * SEGMENT}B"


def udp_130(rng, link, algorithm):
    """More than the uplink carries."""
    return [flow("D", 0, algorithm), flow("U", 10, "udp", rate=int(1.3 * link["cu"]), far=3)]


def two_way(rng, link, algorithm):
    first, second = rng.choice([(0, 0), (0, 10), (8, 0)])
    return [flow("D", first, algorithm), flow("U", second, algorithm, far=rng.choice([0, 1]))]


def several(rng, link, algorithm):
    downs, ups = rng.choice([(2, 1), (1, 2), (2, 2), (3, 1), (1, 3)])
    starts = sorted(rng.uniform(0, 15) for _ in range(downs + ups))
    directions = ["D"] * downs + ["U"] * ups
    rng.shuffle(directions)
    return [flow(x, round(at, 2), algorithm, far=rng.choice([0, 1, 2])) for x, at in zip(directions, starts)]


def upload(rng, link, algorithm):
    return [flow("U", 1, algorithm, far=i) for i in range(rng.choice([1, 2]))]


def download(rng, link, algorithm):
    return [flow("D", 1, algorithm, far=i) for i in range(rng.choice([1, 2]))]


def udp_upload(rng, link, algorithm):
    rate = int(link["cu"] * rng.uniform(0.9, 1.3))
    return [flow("D", 0, algorithm), flow("U", 15, "udp", rate=rate, far=3)]


def call(rng, link, algorithm):
    rate = int(link["cu"] * rng.uniform(0.2, 0.5))
    both = [flow(x, 1, "udp", rate=rate, far=3) for x in "UD"]
    return [*both, flow("D", 20, algorithm)]


def turns(rng, link, algorithm):
    """A download throughout, an upload in the middle: one way, two ways, one way."""
    start = rng.uniform(20, 35)
    return [flow("D", 0, algorithm), flow("U", round(start, 2), algorithm, stop=round(start + 40, 2), far=1)]


def quiet(rng, link, algorithm):
    """Short transfers with pauses between them."""
    flows = []
    at = 1.0
    while at < link["T"] - 15 and len(flows) < 12:
        direction = rng.choice("DDU")
        rate = link["cd"] if direction == "D" else link["cu"]
        flows.append(flow(direction, round(at, 2), algorithm, size=int(rate / 8 * rng.uniform(0.2, 2)), far=rng.choice([0, 1])))
        at += rng.uniform(3, 12)
    return flows


def flow(direction, start, transport, *, stop=0, size=0, rate=0, far=0):
    return direction, start, stop, size, rate, far, transport


FLOWS = {"two_way": two_way, "several": several, "upload": upload, "download": download, "udp_upload": udp_upload, "call": call,
         "turns": turns, "quiet": quiet, "changing": two_way, "udp_130": udp_130}
