"""Captures as they come from worse places: copies of a simulated capture with one defect each."""

import random
import struct

HEADER = struct.Struct("<IIII")


def rewrite(name, change):
    """A defect: `change(packets, link)` gets a list of (time in µs, original length, bytes) and returns what is left of it."""

    def spoil(path, link):
        raw = path.read_bytes()
        packets, at = [], 24
        while at + 16 <= len(raw):
            seconds, us, kept, length = HEADER.unpack_from(raw, at)
            packets.append((seconds * 1_000_000 + us, length, bytearray(raw[at + 16 : at + 16 + kept])))
            at += 16 + kept
        target = path.with_name(f"{path.stem}-{name}.pcap")
        with open(target, "wb") as file:
            file.write(raw[:24])
            for time, length, packet in change(packets, link):
                file.write(HEADER.pack(time // 1_000_000, time % 1_000_000, len(packet), length))
                file.write(packet)
        return target

    return spoil


def is_up(packet):
    return packet[12] == 192


def timestamps(packet):
    """Where the timestamp option of a TCP packet has its two numbers, if it has one."""
    if packet[9] != 6:
        return None
    at = 4 * (packet[0] & 15)
    end = min(len(packet), at + 4 * (packet[at + 12] >> 4))
    at += 20
    while at + 1 < end and packet[at] != 0:
        if packet[at] == 8 and packet[at + 1] == 10 and at + 10 <= end:
            return at + 2
        at += 1 if packet[at] == 1 else max(2, packet[at + 1])
    return None


def each_clock(read):
    """Sends every host's clock through `read(host, stamp)`; what a host echoes changes as the stamp did that it echoes."""

    def change(packets, link):
        for packet in packets:
            at = timestamps(packet[2])
            if at is not None:
                source, destination = packet[2][12:16], packet[2][16:20]
                value, echo = struct.unpack_from(">II", packet[2], at)
                new_echo = read(destination, echo) if echo else 0
                struct.pack_into(">II", packet[2], at, read(source, value) % 2**32, new_echo % 2**32)
        return packets

    return change


def offset(host):
    return random.Random(bytes(host)).getrandbits(32)


def no_timestamps(packets, link):
    """The option is there, but says nothing: both numbers become padding."""
    for packet in packets:
        at = timestamps(packet[2])
        if at is not None:
            packet[2][at - 2 : at + 8] = b"\x01" * 10
    return packets


def lossy(packets, link):
    rng = random.Random(1)
    return [packet for packet in packets if rng.random() > 0.01]


def cut_short(packets, link):
    return packets[: len(packets) // 2]


def begun_late(packets, link):
    return [packet for packet in packets if packet[0] > packets[0][0] + 30_000_000]


DEFECTS = {
    "no-timestamps": rewrite("no-timestamps", no_timestamps),
    "ticks-4ms": rewrite("ticks-4ms", each_clock(lambda host, stamp: offset(host) + stamp // 4)),
    "ticks-10ms": rewrite("ticks-10ms", each_clock(lambda host, stamp: offset(host) + stamp // 10)),
    "offsets": rewrite("offsets", each_clock(lambda host, stamp: offset(host) + stamp)),
    "drift": rewrite("drift", each_clock(lambda host, stamp: offset(host) + int(stamp * (1 + (host[-1] % 7 - 3) * 15e-6)))),
    "lossy": rewrite("lossy", lossy),
    "cut-short": rewrite("cut-short", cut_short),
    "begun-late": rewrite("begun-late", begun_late),
    "no-uplink": rewrite("no-uplink", lambda packets, link: [p for p in packets if not is_up(p[2])]),
    "no-downlink": rewrite("no-downlink", lambda packets, link: [p for p in packets if is_up(p[2])]),
}
