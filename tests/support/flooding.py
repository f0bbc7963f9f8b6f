"""A load that floods a network: packets of one CPU that another CPU's softirqs receive."""

SCRIPT = """
# Sends UDP to itself over lo in a network namespace of its own; RPS has the packets received on a CPU. As root, in
# namespaces of its own (unshare --net --mount), with the number of that CPU and a folder to mount sysfs at.
import fcntl, socket, struct, subprocess, sys, time
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
out, back = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
fcntl.ioctl(out, SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", IFF_UP))
subprocess.run(["mount", "-t", "sysfs", "sysfs", sys.argv[2]], check=True)
with open(f"{sys.argv[2]}/class/net/lo/queues/rx-0/rps_cpus", "w") as file:
    file.write(f"{1 << int(sys.argv[1]):x}")
back.bind(("127.0.0.1", 0))
print("ready", flush=True)
end = time.monotonic() + 900
while time.monotonic() < end:
    out.sendto(bytes(100), back.getsockname())
"""
COMMAND = ("unshare", "--net", "--mount")
