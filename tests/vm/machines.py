"""The machines that guests are: what Debian, Rust and QEMU call them, and where a guest's programs come from."""

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

SEARCH_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


class MissingTool(Exception):
    """A program that the guest needs is not there."""


@dataclass(frozen=True)
class Machine:
    """`target` is what Rust builds programs of another machine for; those of this one have its own."""

    debian: str
    multiarch: str
    emulator: tuple
    # Two serial ports: one for the kernel's messages, one for the output of tests. `{}` is the file that gets them.
    ports: tuple
    console: str
    log: str
    target: str | None = None


MACHINES = {
    # A processor without wide vectors: each of those takes the emulation many instructions, and a sixth of a suite's time.
    "amd64": Machine(
        debian="amd64",
        multiarch="x86_64-linux-gnu",
        emulator=("qemu-system-x86_64", "-machine", "q35", "-cpu", "Nehalem-v1"),
        ports=(("-serial", "file:{}"), ("-serial", "file:{}")),
        console="ttyS0",
        log="ttyS1",
    ),
    # A processor as many gateways have it: without the atomic instructions of ARMv8.1, in whose place the JIT writes loops.
    "arm64": Machine(
        debian="arm64",
        multiarch="aarch64-linux-gnu",
        emulator=("qemu-system-aarch64", "-machine", "virt", "-cpu", "cortex-a72"),
        # The board has one port.
        ports=(("-serial", "file:{}"), ("-chardev", "file,id=log,path={}", "-device", "pci-serial,chardev=log")),
        console="ttyAMA0",
        log="ttyS0",
        target="aarch64-unknown-linux-musl",
    ),
}


class Tools:
    """The programs of this machine."""

    def find(self, name):
        """The path of a program."""
        path = shutil.which(name, path=SEARCH_PATH)
        if path is None:
            raise MissingTool(f"'{name}' is not on this machine, and the guest needs it: './dev vm' installs its package")
        return path

    def file(self, path):
        """Where the file is that a guest has as `path`."""
        return Path(path)

    def libraries(self, program):
        """What the dynamic loader maps for a program, the loader included; nothing for a static one."""
        listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found = []
        for line in listed.splitlines():
            if "=> not found" in line:
                raise MissingTool(f"{program} needs the library {line.split()[0]}, which is not on this machine")
            found += [word for word in line.split() if word.startswith("/")][:1]
        return found


class ForeignTools(Tools):
    """Programs for another processor, unpacked below `directory`: nothing here can run them."""

    def __init__(self, directory, multiarch):
        self.directory = Path(directory)
        self.library_paths = [f"/usr/lib/{multiarch}", "/usr/lib"]

    def find(self, name):
        for place in SEARCH_PATH.split(":"):
            if self.file(f"{place}/{name}").is_file():
                return f"{place}/{name}"
        raise MissingTool(f"'{name}' is not in {self.directory}, and the guest needs it: its package belongs into dev.d/packages.sh")

    def file(self, path):
        found = self.directory / str(path).lstrip("/")
        while found.is_symlink() and (target := found.readlink()).is_absolute():
            found = self.directory / str(target).lstrip("/")
        return found

    def libraries(self, program):
        found, left = [], [program]
        while left:
            headers = subprocess.run(["readelf", "-ldW", left.pop()], capture_output=True, text=True, check=True).stdout
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", headers)
            paths = [self.library(name, program) for name in needed] + re.findall(r"interpreter: (.*)\]", headers)
            new = [path for path in paths if path not in found]
            found += new
            left += map(self.file, new)
        return found

    def library(self, name, program):
        for place in self.library_paths:
            if self.file(f"{place}/{name}").is_file():
                return f"{place}/{name}"
        raise MissingTool(f"{program} needs the library {name}, which is not in {self.directory}")
