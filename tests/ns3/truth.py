"""What a router's buffer held, from the simulator's own log. Nothing here uses Pendulum's code."""

import csv
from bisect import bisect_right
from itertools import accumulate

STEP_S = 0.01
SEGMENT = 1500.0
BLOAT_S = 0.1
PHASES = ("uplink_bound", "downlink_bound", "balanced", "idle")


class Level:
    """A buffer's level every 10 ms: at that moment, and the least since the moment before; the data that it let through; and its mean over any time."""

    def __init__(self, directory, name):
        with open(directory / f"queue_{name}.csv", newline="", encoding="ascii") as file:
            rows = [[float(cell) for cell in row] for row in list(csv.reader(file))[1:]]
        means = (directory / f"mean_{name}.csv").read_text(encoding="ascii").split()[1:]
        # Byte-milliseconds until each millisecond.
        self.integral = [0.0, *accumulate(float(mean) for mean in means)]
        self.at = [row[1] for row in rows]
        self.least = [row[2] for row in rows]
        self.data_bits = [8 * row[5] for row in rows]

    def mean(self, start_s, end_s):
        """The level's mean over a time."""
        return (self._until(end_s) - self._until(start_s)) / (1000 * (end_s - start_s))

    def _until(self, time):
        whole, part = divmod(max(0.0, 1000 * time), 1)
        whole = min(int(whole), len(self.integral) - 2)
        return self.integral[whole] + part * (self.integral[whole + 1] - self.integral[whole])

    def standing(self, windows):
        """The least level of the window that is centred on each moment; `windows` in steps."""
        standing = []
        for moment, width in enumerate(windows):
            first = max(0, moment - width // 2)
            standing.append(min(self.least[first : moment + width - width // 2 + 1] or [self.at[moment]]))
        return standing


class Truth:
    """Both buffers of a run."""

    def __init__(self, directory, link):
        self.link = link
        self.up = Level(directory, "R2_up")
        self.down = Level(directory, "R1_down")
        self.rates = {"D": rates_over_time(link, "D"), "U": rates_over_time(link, "U")}
        far = [float(ms) for ms in link["far"].split(",")]
        # Only hosts that are heard show how far away the provider can be.
        nearest = min(far[int(flow.split(":")[5])] for flow in link["flows"].split(";"))
        self.base_s = 2 * (link["tp"] + nearest + 0.1) / 1000
        count = len(self.up.at)
        delay = [self.delay(moment) for moment in range(count)]
        windows = [max(1, round((self.base_s + up + down + 8 * SEGMENT / link["cu"]) / STEP_S)) for up, down in delay]
        self.standing_up = self.up.standing(windows)
        self.standing_down = self.down.standing(windows)

    def delay(self, moment):
        """How long the uplink's and the downlink's level make wait, seconds."""
        up, down = (level.at[moment] for level in (self.up, self.down))
        return 8 * up / self.rate("U", moment * STEP_S), 8 * down / self.rate("D", moment * STEP_S)

    def rate(self, direction, time):
        times, rates = self.rates[direction]
        return rates[bisect_right(times, time) - 1]

    def shares(self, threshold, start=0):
        """Of the time after step `start`, each phase's share, a queue standing above `threshold` bytes."""
        counts = [0, 0, 0, 0]
        for up, down in zip(self.standing_up[start:], self.standing_down[start:]):
            phase = 2 if up > threshold and down > threshold else 0 if up > threshold else 1 if down > threshold else 3
            counts[phase] += 1
        total = max(1, sum(counts))
        return [count / total for count in counts]

    def starved(self, start):
        """The buffer whose queue of more than 100 ms, after step `start`, starves the other direction, which wants more than it gets; or none."""
        shares = self.shares(SEGMENT, start)
        for x, name in ((0, "uplink"), (1, "downlink")):
            other = "UD"[1 - x]
            if self.delayed("UD"[x], start) >= 0.5 and shares[1 - x] + shares[2] <= 0.1 and self.wants(other) and self.used(other, start) < 0.5:
                return name
        return None

    def wants(self, direction):
        """Whether something in a direction wants more than it gets for most of the time after the first 20 s."""
        capacity = self.link["cd" if direction == "D" else "cu"]
        wanted = 0.0
        for flow in self.link["flows"].split(";"):
            x, start, stop, size, rate, _, _ = flow.split(":")
            if x != direction or float(size) > 0 or 0 < float(rate) < 0.8 * capacity:
                continue
            wanted = max(wanted, (float(stop) or self.link["T"]) - max(20.0, float(start)))
        return wanted > 0.5 * (self.link["T"] - 20.0)

    def used(self, direction, start):
        level = self.up if direction == "U" else self.down
        could = sum(self.rate(direction, k * STEP_S) * STEP_S for k in range(start, len(level.at)))
        return sum(level.data_bits[start:]) / could

    def delayed(self, direction, start):
        """Share of the time in which a direction's standing queue means more than 100 ms."""
        standing = self.standing_up if direction == "U" else self.standing_down
        late = sum(8 * standing[k] / self.rate(direction, k * STEP_S) > BLOAT_S for k in range(start, len(standing)))
        return late / max(1, len(standing) - start)


def rates_over_time(link, direction):
    times, rates = [0.0], [link["cd" if direction == "D" else "cu"]]
    for change in filter(None, link.get("changes", "").split(";")):
        time, x, rate = change.split(":")
        if x == direction:
            times.append(float(time))
            rates.append(int(rate))
    return times, rates
