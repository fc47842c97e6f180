"""The guest's whole file system: a cpio archive of busybox, modules, tools and libraries, made without root.

Two archives are joined: one per kernel, and a small one per suite with the test programs. The kernel unpacks both.
"""

import fnmatch
import lzma
import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

from machines import SEARCH_PATH, MissingTool, Tools

# Modules by name pattern; what they depend on comes with them. A pattern may match nothing: kernels differ.
MODULES = """
    veth ifb dummy bridge 8021q macvlan tun ppp_generic pppoe pppox wireguard
    sch_* cls_bpf cls_u32 cls_matchall cls_flower cls_fw cls_basic act_bpf act_gact act_mirred act_police act_skbedit
    tcp_bbr tcp_diag udp_diag inet_diag unix_diag netlink_diag af_packet_diag af_packet
    nf_tables nf_conntrack nf_conntrack_netlink nft_ct nft_counter nft_limit nft_log nft_masq nft_nat nft_chain_nat nft_quota nft_reject_inet
    nf_flow_table* nft_flow_offload
""".split()

# Programs that the tests may call; they come with their libraries.
TOOLS = """
    bash ip tc ss bridge ethtool iperf3 tcpdump bpftool nft nsenter unshare sysctl setpriv prlimit ping curl
""".split()

# What the tools look for without naming it: iproute2's netem distributions and names, and the library that the C
# library loads when a thread is cancelled.
DATA = """
    /usr/lib/{0}/tc /usr/lib/tc /etc/iproute2 /usr/share/iproute2 /usr/lib/{0}/libgcc_s.so.1
"""

PASSWD = "root:x:0:0:root:/root:/bin/sh\ntcpdump:x:100:100::/nonexistent:/bin/sh\nnobody:x:65534:65534::/nonexistent:/bin/sh\n"
GROUP = "root:x:0:\ntcpdump:x:100:\nnogroup:x:65534:\n"
HOSTS = "127.0.0.1 localhost\n::1 localhost\n"

class Archive:
    """A cpio archive in the "newc" format (kernel: Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self, output):
        self.output = output
        self.inode = 0
        self.names = set()

    def _entry(self, name, mode, data=b"", device=(0, 0)):
        self.inode += 1
        encoded = name.encode() + b"\0"
        fields = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0]
        header = b"070701" + b"".join(b"%08x" % value for value in fields) + encoded
        self.output.write(header + b"\0" * (-len(header) % 4) + data + b"\0" * (-len(data) % 4))

    def directory(self, path):
        """A directory, with those above it. The usual links of a merged /usr are followed."""
        path = merged(path)
        if path != "/" and path not in self.names:
            self.directory(os.path.dirname(path))
            self.names.add(path)
            self._entry(path[1:], stat.S_IFDIR | 0o755)

    def _leaf(self, path):
        path = merged(path)
        if path in self.names:
            return None
        self.directory(os.path.dirname(path))
        self.names.add(path)
        return path[1:]

    def data(self, path, content, mode=0o644):
        """A file with the given bytes or text."""
        if name := self._leaf(path):
            self._entry(name, stat.S_IFREG | mode, content.encode() if isinstance(content, str) else content)

    def link(self, path, target):
        """A symbolic link."""
        if name := self._leaf(path):
            self._entry(name, stat.S_IFLNK | 0o777, target.encode())

    def merge_usr(self):
        """/bin, /lib and /sbin as links into /usr."""
        for name in ("bin", "sbin", "lib", "lib64"):
            self.directory("/usr/" + name)
            self.names.add("/" + name)
            self._entry(name, stat.S_IFLNK | 0o777, b"usr/" + name.encode())

    def device(self, path, major, minor):
        """A character device."""
        if name := self._leaf(path):
            self._entry(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def file(self, source, path=None):
        """A copy of a file of this machine, by default under its own name."""
        source = Path(source)
        self.data(str(path or source), source.read_bytes(), 0o755 if os.access(source, os.X_OK) else 0o644)

    def tree(self, source, path=None):
        """A file or a whole directory, by default under its own name; nothing where there is none."""
        source, path = Path(source), str(path or source)
        if source.is_dir():
            for each in sorted(source.rglob("*")):
                if each.is_file():
                    self.file(each, f"{path}/{each.relative_to(source)}")
        elif source.is_file():
            self.file(source, path)

    def libraries(self, tools, program):
        """The libraries of a program."""
        for library in tools.libraries(program):
            self.file(tools.file(library), library)

    def tool(self, tools, name):
        """A program with its libraries."""
        path = tools.find(name)
        self.data(path, tools.file(path).read_bytes(), 0o755)
        self.libraries(tools, tools.file(path))

    def close(self):
        """Ends the archive. Another may follow in the same file."""
        self._entry("TRAILER!!!", 0)
        self.output.write(b"\0" * (-self.output.tell() % 512))


def merged(path):
    """/lib/x → /usr/lib/x: the guest has only one of each, and links."""
    first = path.split("/", 2)[1]
    return "/usr" + path if first in ("bin", "sbin", "lib", "lib64") else path


def closure(wanted, dependencies):
    """Module files whose name matches a pattern in `wanted`, and all they need, from `modules.dep` as a dictionary."""

    def name(path):
        return path.rsplit("/", 1)[-1].split(".ko", 1)[0].replace("-", "_")

    chosen = set()
    for path, needs in dependencies.items():
        if any(fnmatch.fnmatchcase(name(path), pattern) for pattern in wanted):
            chosen.add(path)
            chosen.update(needs)
    return sorted(chosen)


def read_dependencies(kernel):
    """`modules.dep` of an unpacked kernel; the package does not carry it, depmod makes it."""
    listing = kernel.modules / "modules.dep"
    if not listing.exists():
        depmod(kernel.modules.parents[2], kernel.release)
    pairs = (line.split(":", 1) for line in listing.read_text(encoding="utf-8").splitlines())
    return {path: needs.split() for path, needs in pairs}


def depmod(base, release):
    """Writes the module indexes below `base`/lib/modules/`release`."""
    tool = shutil.which("depmod", path=SEARCH_PATH)
    if tool is None:
        raise MissingTool("'depmod' is missing: install Debian's package kmod")
    subprocess.run([tool, "-b", base, release], check=True, capture_output=True)


def unpacked_module(path):
    """A module's bytes, decompressed: busybox then needs no decompressor."""
    if path.suffix == ".xz":
        return lzma.decompress(path.read_bytes())
    return path.read_bytes()


def add_modules(archive, kernel, wanted=MODULES):
    """The chosen modules, with indexes of their own so that the kernel loads them when a test first needs one."""
    with tempfile.TemporaryDirectory() as base:
        stage = Path(base) / "lib/modules" / kernel.release
        for relative in closure(wanted, read_dependencies(kernel)):
            target = stage / relative.removesuffix(".xz")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(unpacked_module(kernel.modules / relative))
        for name in ("modules.order", "modules.builtin", "modules.builtin.modinfo"):
            if (kernel.modules / name).exists():
                shutil.copy(kernel.modules / name, stage / name)
        depmod(base, kernel.release)
        for path in sorted(stage.rglob("*")):
            if path.is_file() and path.suffix != ".bin":
                archive.file(path, "/" + str(path.relative_to(base)))


def add_busybox(archive, tools):
    """busybox, and a link for each of its commands that no real tool provides. Call this last."""
    busybox = tools.find("busybox")
    archive.data(busybox, tools.file(busybox).read_bytes(), 0o755)
    # This machine's busybox has the same commands as the guest's, whose processor may be another.
    own = Tools().find("busybox")
    for applet in subprocess.run([own, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if not any(merged(f"{place}/{applet}") in archive.names for place in ("/bin", "/sbin", "/usr/bin", "/usr/sbin")):
            archive.link(f"/usr/bin/{applet}", busybox)
    # The kernel runs this one by its full name.
    archive.link("/usr/sbin/modprobe", busybox)


def base_archive(kernel, tools, init, output):
    """Everything but the tests, for one kernel."""
    archive = Archive(output)
    for name in ("dev", "proc", "sys", "run", "tmp", "root", "etc", "var/tmp"):
        archive.directory("/" + name)
    archive.merge_usr()
    archive.device("/dev/console", 5, 1)
    archive.data("/init", Path(init).read_bytes(), 0o755)
    archive.data("/etc/passwd", PASSWD)
    archive.data("/etc/group", GROUP)
    archive.data("/etc/hosts", HOSTS)
    archive.link("/etc/mtab", "/proc/self/mounts")
    for tool in TOOLS:
        archive.tool(tools, tool)
    # busybox's own shell prefers its own commands to those on the PATH, its small "ip" among them.
    archive.link("/usr/bin/sh", "bash")
    for path in DATA.format(kernel.machine.multiarch).split():
        archive.tree(tools.file(path), path)
    add_modules(archive, kernel)
    add_busybox(archive, tools)
    archive.close()
